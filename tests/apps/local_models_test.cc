// Models on this machine: each store as its program writes it, and entries that must be rejected.
#include "apps/models/local_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "apps/models/model_catalog.h"
#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LocalModels : public CommandLine {
 protected:
  void write(const std::string& name, const std::string& content = "x") const {
    std::filesystem::create_directories(std::filesystem::path(dir_.file(name)).parent_path());
    dir_.write(name, content);
  }
  static std::string manifest(const std::string& digest) {
    return R"({"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:00"},)"
           R"({"mediaType":"application/vnd.ollama.image.model","digest":")" +
           digest + "\"}]}";
  }
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const LocalModel& model : local_models()) all.push_back(model.store + "|" + model.name);
    return all;
  }

  const ScopedVariable models_{"IBID_MODELS", dir_.file("ibid")};
  const ScopedVariable home_{"HOME", dir_.file("home")};
  const ScopedVariable cache_{"XDG_CACHE_HOME", dir_.file("cache")};
  const ScopedVariable hub_{"HF_HUB_CACHE", ""}, hub_home_{"HF_HOME", ""}, llama_{"LLAMA_CACHE", ""};
  const ScopedVariable ollama_{"OLLAMA_MODELS", dir_.file("ollama")};
};

TEST_F(LocalModels, ModelStoresOfEachProgramAreReadInTheirLayouts) {
  EXPECT_THAT(names(), testing::IsEmpty()) << "no store exists";
  write("ibid/one.gguf");
  write("ibid/big-00001-of-00002.gguf");
  write("ibid/big-00002-of-00002.gguf");
  write("ibid/dir/config.json");
  write("ibid/notes.txt");
  const std::string hub = "cache/huggingface/hub/models--Qwen--Qwen3-0.6B/";
  write(hub + "refs/main", "abc123");
  write(hub + "snapshots/abc123/config.json");
  write(hub + "snapshots/older/config.json");
  write("cache/huggingface/hub/models--o--g-GGUF/snapshots/1/g-Q4_K_M.gguf");
  write("cache/huggingface/hub/datasets--o--d/snapshots/1/config.json");
  write("cache/llama.cpp/ggml-org_gemma.gguf");
  write("cache/llama.cpp/mmproj-gemma.gguf");
  const std::string digest(64, 'a');
  write("ollama/blobs/sha256-" + digest);
  write("ollama/manifests/registry.ollama.ai/library/qwen3/0.6b", manifest("sha256:" + digest));
  write("ollama/manifests/registry.ollama.ai/somebody/tuned/latest", manifest("sha256:" + digest));
  write("home/.lmstudio/models/pub/name/f-Q8_0.gguf");
  EXPECT_THAT(names(), ElementsAre("ibid|big-00001-of-00002", "ibid|dir", "ibid|one", "hugging face|Qwen/Qwen3-0.6B",
                                   "hugging face|o/g-GGUF:g-Q4_K_M", "llama.cpp|ggml-org_gemma", "ollama|qwen3:0.6b",
                                   "ollama|somebody/tuned:latest", "lm studio|pub/name:f-Q8_0"));
  EXPECT_EQ(*resolve_model("Qwen/Qwen3"), dir_.file(hub + "snapshots/abc123"));
}

TEST_F(LocalModels, OlderSnapshotsProvideFilesThatTheMainSnapshotLacks) {
  const std::string hub = "cache/huggingface/hub/models--o--g/";
  write(hub + "refs/main", "bbb");
  write(hub + "snapshots/aaa/m-Q8_0.gguf", "1");
  write(hub + "snapshots/aaa/m-Q4_0.gguf", "old");
  write(hub + "snapshots/bbb/m-Q4_0.gguf", "new");
  write(hub + "snapshots/bbb/BF16/m-BF16-00001-of-00002.gguf");
  write(hub + "snapshots/bbb/BF16/m-BF16-00002-of-00002.gguf");
  std::filesystem::create_symlink("../../blobs/missing", dir_.file(hub + "snapshots/bbb/m-F16.gguf"));
  EXPECT_THAT(names(), testing::UnorderedElementsAre("hugging face|o/g:m-Q4_0", "hugging face|o/g:m-Q8_0",
                                                     "hugging face|o/g:m-BF16-00001-of-00002"));
  EXPECT_EQ(*resolve_model("o/g:m-Q4"), dir_.file(hub + "snapshots/bbb/m-Q4_0.gguf"));
  const ScopedVariable other("HF_HUB_CACHE", "~/hub");
  write("home/hub/models--a--b/snapshots/1/c.gguf");
  EXPECT_THAT(names(), ElementsAre("hugging face|a/b:c"));
}

TEST_F(LocalModels, ModelNamesFollowTheProgramThatOwnsTheStore) {
  const std::string digest(64, 'b');
  write("ollama/blobs/sha256-" + digest);
  write("ollama/blobs/sha256-" + std::string(64, 'c') + "-partial");
  write("ollama/manifests/registry.ollama.ai/library/m/latest", manifest("sha256:" + digest));
  write("ollama/manifests/registry.ollama.ai/library/m/7b", manifest("sha256:" + std::string(64, 'c')));
  write("ollama/manifests/hf.co/owner/Repo-GGUF/Q4_K_M", manifest("sha256:" + digest));
  write("elsewhere/models/some one/My Model/f.gguf");
  write("home/.lmstudio-home-pointer", dir_.file("elsewhere") + "\n");
  write("ibid/in a folder/g.gguf");
  EXPECT_THAT(names(), ElementsAre("ibid|in a folder/g", "ollama|hf.co/owner/Repo-GGUF:Q4_K_M", "ollama|m:latest",
                                   "lm studio|some one/My Model:f"));
  EXPECT_EQ(*resolve_model("m"), dir_.file("ollama/blobs/sha256-" + digest)) << "the tag defaults to latest";
  EXPECT_EQ(*resolve_model("my model"), dir_.file("elsewhere/models/some one/My Model/f.gguf"));
}

TEST_F(LocalModels, ManifestThatPointsOutsideItsStoreIsIgnored) {
  write("secret", "x");
  for (const std::string& digest :
       {std::string("sha256:../../secret"), "../../secret" + std::string(64, 'a'), "sha256:" + std::string(64, 'g'),
        "sha256:" + std::string(65, 'a'), std::string("sha256-") + std::string(64, 'a'), std::string()}) {
    write("ollama/manifests/registry.ollama.ai/library/evil/latest", manifest(digest));
    EXPECT_THAT(names(), testing::IsEmpty()) << digest;
  }
  for (const char* text : {"", "[]", "{\"layers\":7}", "{\"layers\":[7]}", "{\"layers\":[{\"digest\":7}]}", "{"}) {
    write("ollama/manifests/registry.ollama.ai/library/evil/latest", text);
    EXPECT_THAT(names(), testing::IsEmpty()) << text;
  }
  write("cache/huggingface/hub/models--a--b/refs/main", "../../../..");
  write("cache/config.json");
  EXPECT_THAT(names(), testing::IsEmpty());
}

TEST_F(LocalModels, UniquePrefixOfANameIsEnough) {
  write("ibid/Alpha-7B-Q4_K_M.gguf");
  write("ibid/alpha-7b-Q8_0.gguf");
  write("ibid/beta.gguf");
  write("cache/huggingface/hub/models--o--Gamma/snapshots/1/config.json");
  EXPECT_EQ(*resolve_model("be"), dir_.file("ibid/beta.gguf"));
  EXPECT_EQ(*resolve_model("GAMMA"), dir_.file("cache/huggingface/hub/models--o--Gamma/snapshots/1"));
  EXPECT_EQ(*resolve_model("alpha-7b-q8"), dir_.file("ibid/alpha-7b-Q8_0.gguf"));
  const Status two = resolve_model("alpha").status();
  EXPECT_EQ(two.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(two.message(), HasSubstr("may mean several models:\n  Alpha-7B-Q4_K_M  (ibid)\n  alpha-7b-Q8_0  (ibid)"));
  EXPECT_EQ(resolve_model("delta").status().code(), ErrorCode::kNotFound);
  std::filesystem::create_directories(dir_.file("cache/llama.cpp"));
  std::filesystem::create_symlink(dir_.file("ibid/beta.gguf"), dir_.file("cache/llama.cpp/beta-again.gguf"));
  EXPECT_EQ(*resolve_model("be"), dir_.file("ibid/beta.gguf")) << "a file in two stores is one model";
  EXPECT_TRUE(names_a_model("beta"));
  EXPECT_FALSE(names_a_model("be")) << "a prefix may be a word of a question";
}

TEST_F(LocalModels, ModelsCommandListsModelsAndCommandsAcceptTheirNames) {
  EXPECT_THAT(run("models").err, HasSubstr("`ibid pull` fetches smollm2"));
  std::filesystem::create_directories(dir_.file("ibid"));
  write_scripted_model(dir_.file("ibid/says-yes.gguf"), {{"", "yes"}}, 512);
  write("ibid/torn.gguf", "GGUF");
  const Outcome listed = run("models");
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.out, HasSubstr("ibid\n  says-yes\n    llama · "));
  EXPECT_THAT(listed.out, HasSubstr("context 512 · fits"));
  EXPECT_THAT(listed.out, HasSubstr("  torn\n    does not run: "));
  std::istringstream lines(run("models --json").out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Result<Json> json = parse_json(line, "model");
  ASSERT_TRUE(json.ok()) << line;
  EXPECT_EQ((*json)["name"], "says-yes");
  EXPECT_EQ((*json)["runs"], true);
  EXPECT_EQ((*json)["context"], 512);
  EXPECT_EQ(run("ask -m says hello").out, "yes\n");
  EXPECT_EQ(run("ask says-yes hello there").out, "yes\n");
}

}  // namespace
}  // namespace ibid
