#include "net/sealer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ibid::net {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kKeyA(64, 'a'), kKeyB = std::string(63, 'b') + "0", kKeyC(64, 'C');

Sealer sealer(const std::string& keys) { return *Sealer::parse(keys, "keys"); }

std::vector<std::byte> seal(const Sealer& sealer, std::string_view name, std::string_view value) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(value));
  const std::span<const std::byte> pieces[] = {bytes.first(bytes.size() / 3), {}, bytes.subspan(bytes.size() / 3)};
  std::vector<std::byte> sealed(7);
  EXPECT_TRUE(sealer.seal(name, pieces, sealed).ok());
  EXPECT_EQ(sealed.size(), value.size() + Sealer::kOverheadBytes);
  return sealed;
}

Result<std::string> opened(const Sealer& sealer, std::string_view name, std::vector<std::byte> sealed) {
  TRY_ASSIGN(const std::span<std::byte> value, sealer.open(name, sealed));
  return std::string(reinterpret_cast<const char*>(value.data()), value.size());
}

TEST(Sealer, OpensWhatItSealed) {
  const Sealer one = sealer(kKeyA);
  for (const size_t size : {0, 1, 15, 16, 17, 1000, 100'000}) {
    const std::string value(size, 'v');
    const std::vector<std::byte> sealed = seal(one, "name", value);
    const Result<std::string> read = opened(one, "name", sealed);
    ASSERT_TRUE(read.ok()) << size << read.status().to_string();
    EXPECT_EQ(*read, value);
  }
}

TEST(Sealer, SealedValueHasNothingOfTheValueAndNeverRepeats) {
  const Sealer one = sealer(kKeyA);
  std::set<std::vector<std::byte>> all;
  for (int i = 0; i < 100; ++i) {
    const std::vector<std::byte> sealed = seal(one, "name", "the secret text of a conversation");
    EXPECT_THAT(std::string(reinterpret_cast<const char*>(sealed.data()), sealed.size()), Not(HasSubstr("secret")));
    EXPECT_TRUE(all.insert(std::vector(sealed.begin() + 8, sealed.begin() + 20)).second) << "a nonce twice";
  }
}

TEST(Sealer, EveryChangedOrMissingByteIsDetected) {
  const Sealer one = sealer(kKeyA);
  const std::vector<std::byte> sealed = seal(one, "name", "value of some bytes");
  for (size_t i = 0; i < sealed.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::vector<std::byte> changed = sealed;
      changed[i] ^= static_cast<std::byte>(1 << bit);
      const Status status = opened(one, "name", changed).status();
      EXPECT_EQ(status.code(), i < 8 ? ErrorCode::kMismatch : ErrorCode::kCorrupt) << i;
    }
    std::vector<std::byte> shorter(sealed.begin(), sealed.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_FALSE(opened(one, "name", shorter).ok()) << i;
  }
  std::vector<std::byte> longer = sealed;
  longer.push_back(std::byte{0});
  EXPECT_EQ(opened(one, "name", longer).status().code(), ErrorCode::kCorrupt);
}

TEST(Sealer, ValueUnderAnotherNameIsRefused) {
  const Sealer one = sealer(kKeyA);
  const std::vector<std::byte> sealed = seal(one, "name", "value");
  EXPECT_EQ(opened(one, "nam", sealed).status().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(opened(one, "", sealed).status().code(), ErrorCode::kCorrupt);
}

TEST(Sealer, TwoKeysAreAcceptedWhileOneIsReplaced) {
  const Sealer before = sealer(kKeyA), both = sealer(kKeyB + "\n" + kKeyA), after = sealer(kKeyB);
  const std::vector<std::byte> old_value = seal(before, "name", "old"), new_value = seal(both, "name", "new");
  EXPECT_EQ(*opened(both, "name", old_value), "old");
  EXPECT_EQ(*opened(both, "name", new_value), "new");
  EXPECT_EQ(*opened(after, "name", new_value), "new") << "the first key seals";
  EXPECT_EQ(opened(after, "name", old_value).status().code(), ErrorCode::kMismatch);
  EXPECT_EQ(opened(before, "name", new_value).status().code(), ErrorCode::kMismatch);
  const std::array<std::byte, 16> name{std::byte{1}};
  ASSERT_EQ(both.n_keys(), 2u);
  EXPECT_EQ(both.hidden_name(1, name), before.hidden_name(0, name));
  EXPECT_EQ(both.hidden_name(0, name), after.hidden_name(0, name));
  EXPECT_NE(both.hidden_name(0, name), both.hidden_name(1, name));
  EXPECT_NE(both.hidden_name(0, name), name);
}

TEST(Sealer, KeyFilesAreReadStrictly) {
  EXPECT_TRUE(Sealer::parse("# the key\n\n  " + kKeyA + "  # since May\r\n" + kKeyC, "f").ok());
  const std::string secret = std::string(62, 'a') + "zz";
  for (const std::string& text : {std::string(), std::string("# none\n"), kKeyA.substr(1), kKeyA + "a", secret,
                                  kKeyA + " " + kKeyB, kKeyA + "\n" + kKeyB + "\n" + kKeyC}) {
    const Status status = Sealer::parse(text, "the file").status();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr("the file"));
    EXPECT_THAT(status.message(), Not(HasSubstr("aaaa"))) << "a part of a key in a message";
  }
}

TEST(Sealer, KeyFileOfOthersIsRefused) {
  const TempDir dir;
  const std::string path = dir.write("key", kKeyA + "\n");
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0601}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(Sealer::read(path).status().code(), ErrorCode::kUnsafePath) << std::oct << mode;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(Sealer::read(path).ok());
  EXPECT_EQ(Sealer::read(dir.file("absent")).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Sealer::read(dir.path()).status().code(), ErrorCode::kNotRegularFile);
  const std::string fifo = dir.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Sealer::read(fifo).status().code(), ErrorCode::kNotRegularFile);
  const std::string large = dir.write("large", std::string(10'000, '#'));
  ASSERT_EQ(::chmod(large.c_str(), 0600), 0);
  EXPECT_EQ(Sealer::read(large).status().code(), ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace ibid::net
