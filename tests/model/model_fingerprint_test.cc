// Tests which properties of a model its fingerprint covers. Pages on disk are found by fingerprint: if two
// models had the same one, one would read the other's keys and values.
#include "model/model_fingerprint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/json_limits.h"
#include "model/architectures/architectures.h"
#include "model/config/attention_shape.h"
#include "tests/support/numerics_name.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kContext = 512;

Result<Fingerprint> try_fingerprint(const std::string& path, const ModelOptions& options = {},
                                    size_t context = kContext) {
  TRY_ASSIGN(const auto file, open_model_file(path));
  TRY_ASSIGN(const ModelConfig config, read_config(*file));
  return fingerprint_model(*file, options, context, kv_layout_of(config, options.kv_dtype, context));
}

Fingerprint fingerprint(const std::string& path, const ModelOptions& options = {}, size_t context = kContext) {
  const auto got = try_fingerprint(path, options, context);
  CHECK(got.ok()) << got.status().to_string();
  return *got;
}

// Collects fingerprints, each with a description, and checks that all of them differ.
class AllDifferent {
 public:
  void add(const std::string& what, const Fingerprint& fingerprint) {
    const auto [known, is_new] = seen_.emplace(fingerprint.bytes, what);
    EXPECT_TRUE(is_new) << what << " has the fingerprint of " << known->second;
  }
  size_t size() const { return seen_.size(); }

 private:
  std::map<Sha256Digest, std::string> seen_;
};

// Metadata for a tiny llama like those of a published GGUF: a vocabulary, a template, and an array too long to print.
struct Metadata {
  std::string template_text = std::string(300, 't') + "end";
  std::vector<std::string> tokens = std::vector<std::string>(20, "token"), merges = {"a b", "c d"};
  std::vector<int32_t> types = std::vector<int32_t>(20, 1), by_layer = std::vector<int32_t>(20, 4);
  float theta_factor = 1;
};

std::string gguf_bytes(const TinyModel& tiny = {}, const Metadata& metadata = {}) {
  GgufWriter writer = tiny_model_writer(tiny);
  writer.add_string("tokenizer.chat_template", metadata.template_text);
  writer.add_strings("tokenizer.ggml.tokens", metadata.tokens);
  writer.add_strings("tokenizer.ggml.merges", metadata.merges);
  writer.add_i32s("tokenizer.ggml.token_type", metadata.types);
  writer.add_i32s("llama.something_by_layer", metadata.by_layer);
  writer.add_f32("llama.something", metadata.theta_factor);
  return writer.bytes();
}

class ModelFingerprint : public testing::Test {
 protected:
  // Returns the fingerprint of a GGUF file with these bytes.
  Fingerprint of(const std::string& bytes, const ModelOptions& options = {}, size_t context = kContext) {
    return fingerprint(dir_.write("model.gguf", bytes), options, context);
  }
  TempDir dir_;
};

TEST_F(ModelFingerprint, CoversEveryTensorOfGguf) {
  const std::string bytes = gguf_bytes();
  const std::string path = dir_.write("model.gguf", bytes);
  AllDifferent all;
  all.add("the model", fingerprint(path));
  // Find the offset of each tensor in the file by its bytes, which are random.
  std::vector<std::pair<std::string, size_t>> places;
  {
    const auto file = open_model_file(path);
    ASSERT_TRUE(file.ok());
    for (const std::string& name : (*file)->tensor_names()) {
      const auto data = (*file)->find_tensor(name)->data;
      const std::string_view of_tensor(reinterpret_cast<const char*>(data.data()), data.size());
      places.emplace_back(name + "'s first byte", bytes.find(of_tensor));
      places.emplace_back(name + "'s last number", bytes.find(of_tensor) + data.size() - 4);
    }
  }
  ASSERT_GT(places.size(), 50u);
  for (const auto& [what, place] : places) {
    std::string changed = bytes;
    changed[place] = static_cast<char>(changed[place] ^ 1);
    all.add(what, of(changed));
  }
}

TEST_F(ModelFingerprint, CoversTypesShapesAndHyperparameters) {
  AllDifferent all;
  TinyModel other;
  all.add("the model", of(gguf_bytes()));
  other.matrix_dtype = DType::kF16;
  all.add("matrices of F16", of(gguf_bytes(other)));
  other = {}, other.n_layers = 2;
  all.add("fewer layers", of(gguf_bytes(other)));
  other = {}, other.context = 2048;
  all.add("a trained context of 2048", of(gguf_bytes(other)));
  other = {}, other.tied = true;
  all.add("no head", of(gguf_bytes(other)));
  // The same tensors, but divided into other heads.
  other = {}, other.n_heads = 2, other.n_kv_heads = 1, other.head_dim = 32;
  all.add("wider heads", of(gguf_bytes(other)));
}

// Pages of F16 keys and INT8 values have as many bytes as pages of INT8 keys and F16 values: the size does not differ.
TEST_F(ModelFingerprint, CoversKvFormatOfEachLayer) {
  const std::string path = dir_.write("model.gguf", gguf_bytes());
  const auto file = open_model_file(path);
  ASSERT_TRUE(file.ok());
  const ModelConfig config = *read_config(**file);
  const auto of_formats = [&](std::span<const KvRowFormat> formats) {
    return *fingerprint_model(**file, {}, kContext, kv_layout_of(config, KvDType::kInt8, kContext, formats));
  };
  const std::vector<KvRowFormat> usual(config.n_layers, KvDType::kInt8);
  EXPECT_EQ(of_formats(usual), fingerprint(path));
  AllDifferent all;
  all.add("INT8 everywhere", of_formats(usual));
  for (const KvRowFormat other : {KvRowFormat(KvNumberFormat::kF16, KvNumberFormat::kInt8),
                                  KvRowFormat(KvNumberFormat::kInt8, KvNumberFormat::kF16)}) {
    const std::string name = other.keys == KvNumberFormat::kF16 ? "keys" : "values";
    for (size_t layer = 0; layer < config.n_layers; ++layer) {
      std::vector<KvRowFormat> formats = usual;
      formats[layer] = other;
      all.add("F16 " + name + " in layer " + std::to_string(layer), of_formats(formats));
    }
    all.add("F16 " + name + " everywhere", of_formats(std::vector(config.n_layers, other)));
  }
}

TEST_F(ModelFingerprint, CoversAllMetadataToTheLastByte) {
  AllDifferent all;
  all.add("the model", of(gguf_bytes()));
  const auto add = [&](const char* what, const std::function<void(Metadata&)>& change) {
    Metadata changed;
    change(changed);
    all.add(what, of(gguf_bytes({}, changed)));
  };
  add("the template's last byte", [](Metadata& m) { m.template_text.back() = '!'; });
  add("the last token", [](Metadata& m) { m.tokens.back() = "other"; });
  add("the last merge", [](Metadata& m) { m.merges.back() = "c e"; });
  add("the last token's type", [](Metadata& m) { m.types.back() = 3; });
  add("a list's first number", [](Metadata& m) { m.by_layer.front() = 5; });
  add("a list's last number", [](Metadata& m) { m.by_layer.back() = 5; });
  add("a list's length", [](Metadata& m) { m.by_layer.push_back(4); });
  add("a number", [](Metadata& m) { m.theta_factor = 1.0000001f; });
}

TEST_F(ModelFingerprint, CoversNumericsKvTypeAndContext) {
  const std::string bytes = gguf_bytes();
  AllDifferent all;
  for (const Numerics numerics : {Numerics::kReference, Numerics::kExact, Numerics::kFast}) {
    for (const KvDType kv_dtype : {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4}) {
      for (const size_t context : {kContext, 2 * kContext}) {  // RoPE rules may depend on the context
        const std::string what = std::string(numerics_name(numerics)) + ", KV type " +
                                 std::to_string(static_cast<int>(kv_dtype)) + ", " + std::to_string(context);
        all.add(what, of(bytes, {.numerics = numerics, .kv_dtype = kv_dtype}, context));
      }
    }
  }
  EXPECT_EQ(all.size(), 3u * 5u * 2u);
}

TEST_F(ModelFingerprint, IgnoresThreadsChunksAndInstructionSet) {
  const std::string bytes = gguf_bytes();
  const Fingerprint wanted = of(bytes, {.n_threads = 1});
  for (const int n_threads : {0, 2, 3}) EXPECT_EQ(of(bytes, {.n_threads = n_threads}), wanted) << n_threads;
  EXPECT_EQ(of(bytes, {.n_threads = 1, .max_chunk = 7}), wanted);
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    EXPECT_EQ(of(bytes, {.n_threads = 1, .isa = isa}), wanted) << isa_name(isa);
  }
}

TEST_F(ModelFingerprint, IgnoresFilePath) {
  const std::string bytes = gguf_bytes();
  const Fingerprint wanted = of(bytes);
  const TempDir elsewhere;
  EXPECT_EQ(fingerprint(elsewhere.write("another name.bin", bytes)), wanted);
  fs::create_symlink(elsewhere.file("another name.bin"), elsewhere.file("link.gguf"));
  EXPECT_EQ(fingerprint(elsewhere.file("link.gguf")), wanted);
}

void copy_directory(const std::string& from, const TempDir& to) {
  for (const auto& entry : fs::directory_iterator(from)) {
    if (entry.path().filename() == "logits.safetensors") continue;
    fs::copy_file(entry.path(), to.file(entry.path().filename().string()), fs::copy_options::overwrite_existing);
  }
}

TEST(ModelFingerprintOfADirectory, CoversConfigTokenizerAndTemplate) {
  const TempDir dir;
  copy_directory(golden_dir() + "/families/arcee", dir);
  AllDifferent all;
  all.add("the model", fingerprint(dir.path()));
  EXPECT_EQ(fingerprint(dir.path()), fingerprint(golden_dir() + "/families/arcee"));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    dir.write(name, "{}");
    all.add(std::string("a ") + name, fingerprint(dir.path()));
    dir.write(name, "{ }");
    all.add(std::string("another ") + name, fingerprint(dir.path()));
  }
  Json config = Json::parse(read_whole_file(dir.file("config.json")));
  config["rope_theta"] = 12345.0;
  dir.write("config.json", config.dump());
  all.add("another config.json", fingerprint(dir.path()));
  EXPECT_EQ(all.size(), 8u);
  const Fingerprint last = fingerprint(dir.path());
  dir.write("README.md", "what nobody computes with");
  EXPECT_EQ(fingerprint(dir.path()), last);
}

struct StoredTensor {
  std::string name;
  size_t begin, end;  // offsets in the file
};

std::vector<StoredTensor> tensors_of(const std::string& safetensors) {
  uint64_t n = 0;
  std::memcpy(&n, safetensors.data(), sizeof(n));
  const Json header = Json::parse(safetensors.substr(8, n));
  std::vector<StoredTensor> tensors;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = value["data_offsets"][0], end = value["data_offsets"][1];
    tensors.push_back({name, 8 + n + begin, 8 + n + end});
  }
  return tensors;
}

// In checkpoints that store weights in several tensors (integers, scales, zero points, column orders), flips one bit of
// each: the lowest bit of its last number.
TEST(ModelFingerprintOfADirectory, CoversEveryPartOfPackedWeights) {
  size_t n_turned = 0;
  for (const auto& directory : fs::directory_iterator(golden_dir() + "/packed")) {
    if (!directory.is_directory()) continue;
    SCOPED_TRACE(directory.path().string());
    const TempDir dir;
    copy_directory(directory.path(), dir);
    const std::string bytes = read_whole_file(dir.file("model.safetensors"));
    AllDifferent all;
    all.add("the model", fingerprint(dir.path()));
    for (const StoredTensor& tensor : tensors_of(bytes)) {
      std::string changed = bytes;
      const size_t last = tensor.end - std::min<size_t>(tensor.end - tensor.begin, 4);
      changed[last] = static_cast<char>(changed[last] ^ 1);
      dir.write("model.safetensors", changed);
      const auto got = try_fingerprint(dir.path());
      if (!got.ok()) continue;  // the flipped bit made a scale or an order invalid, so it is refused
      all.add(tensor.name, *got);
      ++n_turned;
    }
  }
  EXPECT_GT(n_turned, 100u);
}

TEST_F(ModelFingerprint, EveryNumericsVersionIsDocumented) {
  const std::string page = read_whole_file(golden_dir() + "/../../docs/numerics.md");
  const auto has_line = [&](uint32_t version) {
    return page.find("\n| " + std::to_string(version) + " | 20") != std::string::npos;
  };
  for (uint32_t version = 1; version <= kNumericsVersion; ++version) EXPECT_TRUE(has_line(version)) << version;
  EXPECT_FALSE(has_line(kNumericsVersion + 1)) << "the constant was not raised";
  EXPECT_EQ(of(gguf_bytes()).numerics_version, kNumericsVersion);
}

}  // namespace
}  // namespace ibid
