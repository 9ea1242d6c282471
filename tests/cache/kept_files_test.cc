// Records of another program version in a cache directory: reported, not used and not removed.
#include <filesystem>

#include "tests/cache/tier_fixture.h"
#include "tests/support/paths.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KeptFiles : public TierTest {
 protected:
  FileTierOptions of_numerics(uint32_t version) const {
    FileTierOptions wanted = options();
    wanted.fingerprint = FingerprintBuilder().add("test", "model").finish(version);
    return wanted;
  }
};

TEST_F(KeptFiles, RecordsOfPreviousFormatsAreReportedAndNotDeleted) {
  ASSERT_TRUE(files_->open_directory(directory_).ok());
  size_t n_files = 0;
  for (const auto& file : fs::directory_iterator(golden_dir() + "/kept/tier")) {
    fs::copy(file.path(), fs::path(directory_) / file.path().filename());
    ++n_files;
  }
  ASSERT_EQ(n_files, 4u);
  const auto tier = open();
  const KvTierStats stats = tier->stats();
  EXPECT_THAT(stats.other_versions, HasSubstr("2 records are not used (KV record: format version 1, this program reads "
                                              "version 4)"));
  EXPECT_THAT(stats.other_versions, HasSubstr("2 records are not used (KV record: format version 2, this program reads "
                                              "version 4)"));
  EXPECT_EQ(stats.quarantined, 0u);
  EXPECT_EQ(page_files().size(), 2u);
  EXPECT_EQ(state_files().size(), 2u);
  const Tokens ids = random_tokens(1, 100);
  write(*tier, "", ids);
  EXPECT_EQ(found(*tier, "", ids), 100u) << "new records are read and written beside them";
}

TEST_F(KeptFiles, RecordsOfOtherNumericsVersionsAreReportedAndRecomputed) {
  const Tokens ids = random_tokens(2, 150);
  write(*open(of_numerics(1)), "", ids);
  {
    const auto tier = open(of_numerics(2));
    EXPECT_EQ(tier->stats().other_versions,
              "3 records are not used (KV record: computed by version 1 of the numerics, this program has version 2)");
    EXPECT_EQ(found(*tier, "", ids), 0u);
    EXPECT_EQ(tier->stats().quarantined, 0u);
  }
  const auto tier = open(of_numerics(1));
  EXPECT_EQ(tier->stats().other_versions, "");
  EXPECT_EQ(found(*tier, "", ids), 150u) << "the version that wrote them still reads them";
}

}  // namespace
}  // namespace ibid
