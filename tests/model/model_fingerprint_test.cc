// Tests which properties of a model its fingerprint covers. Pages on disk are found by fingerprint: if two
// models had the same one, one would read the other's keys and values.
#include "model/model_fingerprint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
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
                                    size_t context = kContext, std::span<const KvRowFormat> formats = {}) {
  TRY_ASSIGN(std::unique_ptr<ModelFile> opened, open_model_file(path));
  const std::shared_ptr<const ModelFile> file = std::move(opened);
  TRY_ASSIGN(const ModelConfig config, read_config(*file));
  const KvLayout layout = kv_layout_of(config, options.kv_dtype, context, formats);
  const FingerprintSettings settings{options.numerics, config.ropes, context, layout};
  TRY_ASSIGN(const LaterFingerprint later, fingerprint_model(*file, settings, start_digest(file)));
  return later.get();
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
    return *try_fingerprint(path, {}, kContext, formats);
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

TEST_F(ModelFingerprint, CoversNumericsAndKvType) {
  const std::string bytes = gguf_bytes();
  AllDifferent all;
  for (const Numerics numerics : {Numerics::kReference, Numerics::kExact, Numerics::kFast}) {
    for (const KvDType kv_dtype : {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4}) {
      const std::string what =
          std::string(numerics_name(numerics)) + ", KV type " + std::to_string(static_cast<int>(kv_dtype));
      all.add(what, of(bytes, {.numerics = numerics, .kv_dtype = kv_dtype}));
    }
  }
  EXPECT_EQ(all.size(), 3u * 5u);
}

TEST_F(ModelFingerprint, ContextCountsOnlyWhereARuleReadsIt) {
  const std::string bytes = gguf_bytes();
  EXPECT_EQ(of(bytes, {}, 300), of(bytes, {}, 8192)) << "nodes with other contexts share keys and values";

  const std::string path = dir_.write("model.gguf", bytes);
  Result<std::unique_ptr<ModelFile>> opened = open_model_file(path);
  ASSERT_TRUE(opened.ok());
  const std::shared_ptr<const ModelFile> file = *std::move(opened);
  const KvLayout layout = kv_layout_of(*read_config(*file), KvDType::kInt8, kContext);
  RopeRule rule{.kind = RopeRule::Kind::kLongrope, .rotary_dim = 2, .original_max_positions = 4096};
  rule.frequency_factors = {2}, rule.short_factors = {3};
  const auto with_context = [&](size_t context) {
    const FingerprintSettings settings{Numerics::kExact, {&rule, 1}, context, layout};
    return *fingerprint_model(*file, settings, start_digest(file))->get();
  };
  EXPECT_EQ(with_context(300), with_context(4096)) << "both use the short factors";
  EXPECT_NE(with_context(4096), with_context(4097));
  EXPECT_EQ(with_context(4097), with_context(100'000));
}

// A window as long as the context is not counted, so the pages of such layouts have their layers in another order.
TEST_F(ModelFingerprint, CoversTheLayersThatHaveWindows) {
  const auto file_path = dir_.write("model.gguf", gguf_bytes());
  Result<std::unique_ptr<ModelFile>> opened = open_model_file(file_path);
  ASSERT_TRUE(opened.ok());
  const std::shared_ptr<const ModelFile> file = *std::move(opened);
  AllDifferent all;
  const auto add = [&](const std::string& what, std::vector<size_t> windows) {
    std::vector<KvRowShape> rows;
    for (const size_t window : windows) rows.push_back({.n_kv_heads = 1, .head_dim = 8, .window = window});
    const KvLayout layout = KvLayout::make(rows, KvDType::kF32);
    all.add(what, *fingerprint_model(*file, {.ropes = {}, .layout = layout}, start_digest(file))->get());
  };
  add("no window", {0, 0});
  add("a window in the first layer", {64, 0});
  add("a window in the second layer", {0, 64});
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

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return to_hex(hash.finish());
}

TEST_F(ModelFingerprint, DigestOfAFileIsWhatSha256sumPrints) {
  const std::string bytes = gguf_bytes();
  const auto file = open_model_file(dir_.write("model.gguf", bytes));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(to_hex(*(*file)->digest({})), sha256_hex(bytes));
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ((*file)->digest(stopped.get_token()).status().code(), ErrorCode::kCancelled);
}

TEST_F(ModelFingerprint, DigestOfSeveralFilesIsThatOfTheLinesOfSha256sum) {
  std::vector<MappedFile> files;
  for (const char* name : {"b.safetensors", "a.safetensors"}) {
    files.push_back(*MappedFile::open(dir_.write(name, std::string("bytes of ") + name)));
  }
  const std::string lines = sha256_hex("bytes of a.safetensors") + "  a.safetensors\n" +
                            sha256_hex("bytes of b.safetensors") + "  b.safetensors\n";
  EXPECT_EQ(to_hex(*digest_of_files(files, {})), sha256_hex(lines));
}

// Neither size nor time is trusted instead of the bytes: another file of the same size and time has another digest.
TEST_F(ModelFingerprint, FileOfTheSameSizeAndTimeIsHashedAgain) {
  std::string bytes = gguf_bytes();
  const Fingerprint first = of(bytes);
  const auto time = fs::last_write_time(dir_.file("model.gguf"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  dir_.write("model.gguf", bytes);
  fs::last_write_time(dir_.file("model.gguf"), time);
  EXPECT_NE(fingerprint(dir_.file("model.gguf")), first);
}

TEST_F(ModelFingerprint, FileThatChangesWhileItIsHashedIsAnError) {
  const std::string path = dir_.write("model.gguf", gguf_bytes());
  const auto file = open_model_file(path);
  ASSERT_TRUE(file.ok());
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_EQ((*file)->digest({}).status().code(), ErrorCode::kChangedOnDisk);
}

// A digest that another thread computes: the wait ends at its limits.
TEST(LaterFingerprintTest, WaitEndsAtTheLimitOrWithTheDigest) {
  std::promise<void> go;
  const Fingerprint settings = FingerprintBuilder().add("settings", "x").finish(7);
  const auto digest = std::make_shared<LaterDigest>([&](const std::stop_token&) -> Result<Sha256Digest> {
    go.get_future().wait();
    return Sha256().finish();
  });
  const LaterFingerprint later(settings, digest);
  EXPECT_EQ(later.numerics_version(), 7u);
  EXPECT_EQ(later.get({}, std::chrono::milliseconds(1)).status().code(), ErrorCode::kDeadline);
  EXPECT_EQ(later.get({}, std::chrono::milliseconds(-1)).status().code(), ErrorCode::kDeadline);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(later.get(stopped.get_token()).status().code(), ErrorCode::kCancelled);
  go.set_value();
  const Result<Fingerprint> got = later.get();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->numerics_version, 7u);
  EXPECT_NE(*got, settings);
  EXPECT_EQ(*later.get(stopped.get_token()), *got) << "a known fingerprint needs no waiting";
  EXPECT_EQ(*LaterFingerprint(settings).get(), settings);
}

TEST(LaterFingerprintTest, ErrorOfTheDigestIsThatOfTheFingerprint) {
  const auto fails = std::make_shared<LaterDigest>([](const std::stop_token&) -> Result<Sha256Digest> {
    return {ErrorCode::kIo, "no disk"};
  });
  EXPECT_EQ(LaterFingerprint(Fingerprint{}, fails).get().status().code(), ErrorCode::kIo);
}

TEST(LaterFingerprintTest, DestructionStopsTheThread) {
  const LaterDigest digest([](const std::stop_token& stop) -> Result<Sha256Digest> {
    while (!stop.stop_requested()) std::this_thread::yield();
    return {ErrorCode::kCancelled, ""};
  });
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
