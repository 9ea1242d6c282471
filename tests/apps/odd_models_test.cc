// Files and directories that are not usable models: every command reports what they are and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/apps/command_line_fixture.h"
#include "tests/support/gguf_tensors.h"

namespace ibid {
namespace {

using testing::HasSubstr;

class OddModels : public CommandLine {
 protected:
  std::string gguf(const std::string& name, const std::string& architecture, const std::string& type,
                   const char* tensor = "blk.0.attn_q.weight") const {
    GgufWriter writer;
    if (!architecture.empty()) writer.add_string("general.architecture", architecture);
    if (!type.empty()) writer.add_string("general.type", type);
    add_tensor_of(writer, tensor, DType::kF32, Shape{{4, 8}, 2}, std::vector<float>(32, 1.0f));
    EXPECT_TRUE(writer.write(dir_.file(name)).ok());
    return dir_.file(name);
  }
  std::string directory(const std::string& name, const std::string& file, const std::string& content = "{}") const {
    std::filesystem::create_directories(dir_.file(name));
    dir_.write(name + "/" + file, content);
    return dir_.file(name);
  }
  void expect(const std::string& path, const std::string& words) const {
    for (const std::string command :
         {"ask hello -m MODEL", "chat -p hello MODEL", "perplexity MODEL -", "bench MODEL"}) {
      const size_t at = command.find("MODEL");
      const Outcome outcome = run(command.substr(0, at) + path + command.substr(at + 5), "hello");
      EXPECT_EQ(outcome.status, 1) << command << path << outcome.out;
      EXPECT_THAT(outcome.err, HasSubstr(words)) << command << path;
    }
    const Outcome inspected = run("inspect " + path);
    EXPECT_EQ(inspected.status, 1);
    EXPECT_THAT(inspected.out + inspected.err, HasSubstr(words));
  }
};

TEST_F(OddModels, FilesThatAreNoLanguageModelsAreIdentified) {
  expect(gguf("lora.gguf", "llama", "adapter"), "is a LoRA adapter: load a model that it was merged into");
  expect(gguf("a.gguf", "llama", "", "blk.0.attn_q.weight.lora_a"), "is a LoRA adapter");
  expect(gguf("eyes.gguf", "clip", ""), "is an image projector: load the file of the language model");
  expect(gguf("i.gguf", "", "imatrix"), "is an importance matrix for quantisation");
  expect(gguf("bert.gguf", "bert", ""), "is a bidirectional embedding model");
  GgufWriter embedding = tiny_model_writer({});
  embedding.add_u32("llama.pooling_type", 2);
  ASSERT_TRUE(embedding.write(dir_.file("embedding.gguf")).ok());
  expect(dir_.file("embedding.gguf"), "llama.pooling_type is 2 (cls)");
  GgufWriter vocabulary;
  vocabulary.add_string("general.architecture", "llama");
  vocabulary.add_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  ASSERT_TRUE(vocabulary.write(dir_.file("vocabulary.gguf")).ok());
  expect(dir_.file("vocabulary.gguf"), "is a vocabulary without weights");
}

TEST_F(OddModels, FailedDownloadsAreIdentified) {
  expect(dir_.write("lfs.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n"),
         "a Git LFS pointer, not the file itself: fetch it with git lfs pull");
  expect(dir_.write("page.gguf", "<!DOCTYPE html><html>"), "a web page, probably an error or login page");
  expect(dir_.write("empty.gguf", ""), "the file is empty");
  const std::string whole = read_whole_file(tiny_model());
  expect(dir_.write("torn.gguf", whole.substr(0, whole.size() / 2)), "the download may be incomplete");
  expect(dir_.write("m.bin", std::string("PK\x03\x04\x14\0\0\0\0\0", 10)), "convert it to safetensors");
  expect(dir_.write("m.pt", std::string("\x80\x02}q\x01(X\0\0\0", 10)), "a Python pickle, which is never read");
}

TEST_F(OddModels, UnsupportedDirectoriesAreIdentified) {
  expect(directory("adapter", "adapter_config.json"), "so it is a LoRA adapter");
  expect(directory("pickles", "pytorch_model.bin", "x"), "a Python pickle, which is never read, and no config.json");
  expect(directory("meta", "params.json"), "a checkpoint in its maker's own layout");
  expect(directory("nothing", "notes.txt"), "holds no config.json");
  const std::string pointers = directory("pointers", "config.json", R"({"model_type": "llama"})");
  dir_.write("pointers/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  expect(pointers, "a Git LFS pointer");
  const std::string alone = dir_.write("alone.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  expect(alone, "config.json, which describes the weights, is missing");
  std::filesystem::create_directories(dir_.file("many"));
  std::filesystem::copy_file(tiny_model(), dir_.file("many/b.gguf"));
  EXPECT_EQ(run("inspect " + dir_.file("many")).status, 0) << "the only model in the directory";
  std::filesystem::copy_file(tiny_model(), dir_.file("many/a.gguf"));
  expect(dir_.file("many"), "many holds 2 models; name one:\n");
}

}  // namespace
}  // namespace ibid
