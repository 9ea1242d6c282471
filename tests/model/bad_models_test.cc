// Files with a valid container and an invalid model: each gets a typed error with file, field, value and range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/gguf_header.h"

namespace ibid {
namespace {

using testing::HasSubstr;

Status load_written(const GgufWriter& writer, const ModelOptions& options = {}) {
  const TempDir dir;
  const std::string path = dir.file("bad.gguf");
  EXPECT_TRUE(writer.write(path).ok());
  const auto file = open_model_file(path);
  if (!file.ok()) return file.status();
  return load_language_model(**file, options).status();
}

// A model file with metadata and an embedding only, for errors that are found before other tensors are read.
class Metadata {
 public:
  Metadata() {
    for (const char* key : {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                            "attention.head_count_kv", "context_length"}) {
      values_[key] = 64;
    }
    values_["block_count"] = 1;
    values_["attention.head_count"] = values_["attention.head_count_kv"] = 4;
  }
  Metadata& set(const std::string& key, uint64_t value) {
    values_[key] = value;
    return *this;
  }
  Metadata& remove(const std::string& key) {
    values_.erase(key);
    return *this;
  }
  Metadata& eps(float value) {
    eps_ = value;
    return *this;
  }
  Metadata& freq_base(float value) {
    freq_base_ = value;
    return *this;
  }
  Metadata& architecture(const std::string& name) {
    architecture_ = name;
    return *this;
  }

  Status load() const {
    GgufWriter writer;
    writer.add_string("general.architecture", architecture_);
    for (const auto& [key, value] : values_) writer.add_u64("llama." + key, value);
    writer.add_f32("llama.attention.layer_norm_rms_epsilon", eps_);
    writer.add_f32("llama.rope.freq_base", freq_base_);
    add_tensor_of(writer, "token_embd.weight", DType::kF32, Shape{{8, 64}, 2}, std::vector<float>(8 * 64));
    return load_written(writer);
  }

 private:
  std::map<std::string, uint64_t> values_;
  std::string architecture_ = "llama";
  float eps_ = 1e-5f;
  float freq_base_ = 10000.0f;
};

void expect_refused(const Status& status, ErrorCode code, const std::string& names) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("bad.gguf"));
  EXPECT_THAT(status.message(), HasSubstr(names));
}

TEST(BadModels, Case59_FileTruncatedDuringLoadingIsReported) {
  const TempDir dir;
  const std::string path = dir.file("bad.gguf");
  const uint64_t size = tiny_model_writer({}).bytes().size();
  for (uint64_t left = 0; left < size; left += size / 23) {
    write_tiny_model({}, path);
    const auto file = open_model_file(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    std::filesystem::resize_file(path, left);
    expect_refused(load_language_model(**file, {}).status(), ErrorCode::kChangedOnDisk,
                   "now has " + std::to_string(left));
  }
}

// The file is truncated at an arbitrary moment. The model must then be loaded completely or refused.
TEST(BadModels, Case59_FileTruncatedConcurrentlyIsLoadedOrRefused) {
  const TempDir dir;
  const std::string path = dir.file("bad.gguf");
  for (int i = 0; i < 30; ++i) {
    write_tiny_model({}, path);
    std::jthread other([&] {
      for (int k = 0; k < i * 20; ++k) std::this_thread::yield();
      std::filesystem::resize_file(path, 5000);
    });
    const auto file = open_model_file(path);
    const Status status = file.ok() ? load_language_model(**file, {}).status() : file.status();
    if (!status.ok()) {
      EXPECT_THAT(status.message(), HasSubstr("bad.gguf"));
    }
  }
}

TEST(BadModels, Case60_ModelWithoutHeadsIsRefused) {
  expect_refused(Metadata().set("attention.head_count", 0).load(), ErrorCode::kBadHyperparameter,
                 "attention.head_count is 0");
}

TEST(BadModels, Case61_HeadsNotAMultipleOfKvHeadsAreRefused) {
  expect_refused(Metadata().set("attention.head_count_kv", 3).load(), ErrorCode::kBadHyperparameter,
                 "a divisor of n_heads, 4");
}

TEST(BadModels, Case62_OddHeadDimIsRefused) {
  expect_refused(Metadata().set("attention.key_length", 15).set("attention.value_length", 15).load(),
                 ErrorCode::kBadHyperparameter, "attention.key_length is 15, expected an even number");
}

TEST(BadModels, Case63_RotaryDimAboveHeadDimIsRefused) {
  expect_refused(Metadata().set("rope.dimension_count", 18).load(), ErrorCode::kBadHyperparameter,
                 "rope.dimension_count is 18, expected 2..16");
}

TEST(BadModels, Case64_BlockCountOutOfRangeIsRefused) {
  expect_refused(Metadata().set("block_count", 0).load(), ErrorCode::kBadHyperparameter, "block_count is 0");
  expect_refused(Metadata().set("block_count", 1'000'000'000).load(), ErrorCode::kBadHyperparameter,
                 "block_count is 1000000000");
}

TEST(BadModels, Case65_ContextOutOfRangeIsRefused) {
  expect_refused(Metadata().set("context_length", 0).load(), ErrorCode::kBadHyperparameter, "context_length is 0");
  expect_refused(Metadata().set("context_length", uint64_t{1} << 31).load(), ErrorCode::kBadHyperparameter,
                 "context_length");
}

TEST(BadModels, Case72_NonPositiveEpsilonIsRefused) {
  for (const float eps : {0.0f, -1.0f, std::nanf("")}) {
    expect_refused(Metadata().eps(eps).load(), ErrorCode::kBadHyperparameter, "layer_norm_rms_epsilon");
  }
}

TEST(BadModels, Case73_NonPositiveRopeBaseIsRefused) {
  for (const float base : {0.0f, -10000.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    expect_refused(Metadata().freq_base(base).load(), ErrorCode::kBadHyperparameter, "rope.freq_base");
  }
}

TEST(BadModels, MissingKeysAreNamed) {
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "attention.head_count", "context_length"}) {
    expect_refused(Metadata().remove(key).load(), ErrorCode::kMissingKey, std::string("llama.") + key);
  }
}

TEST(BadModels, UnknownArchitectureErrorListsKnownArchitectures) {
  expect_refused(Metadata().architecture("mamba").load(), ErrorCode::kUnsupported,
                 "architecture 'mamba' is not supported (supported: llama");
}

TEST(BadModels, Case66_MissingTensorIsRefused) {
  expect_refused(Metadata().load(), ErrorCode::kMissingTensor, "is missing");
}

TEST(BadModels, Case67_ShapeThatDisagreesWithHyperparametersIsRefused) {
  GgufWriter writer = tiny_model_writer({});
  writer.add_u32("llama.vocab_size", 119);
  expect_refused(load_written(writer), ErrorCode::kBadShape, "token_embd.weight is [120, 64], expected [119, 64]");
}

// Extra tensors of a layer are refused (unused_tensors_test.cc).
TEST(BadModels, Case68_ExtraTensorsOfOtherPartsAreIgnored) {
  GgufWriter writer = tiny_model_writer({});
  add_tensor_of(writer, "v.something_new.weight", DType::kF32, Shape{{4, 4}, 2}, std::vector<float>(16));
  EXPECT_TRUE(load_written(writer).ok());
}

TEST(BadModels, Case69_TiedHeadOfAQuantizedEmbeddingLoads) {
  TinyModel tied;
  tied.tied = true;
  tied.embed_dtype = DType::kQ8_0;
  EXPECT_TRUE(load_written(tiny_model_writer(tied)).ok());
}

TEST(BadModels, Case70_NonFiniteNormsAreRefused) {
  TinyModel tiny;
  tiny.norm_mean = std::nanf("");
  expect_refused(load_written(tiny_model_writer(tiny)), ErrorCode::kNonFinite,
                 "norm.weight holds a value that is not finite");
}

// A scale of 255 means NaN, not a power of two, and must not become a finite number on the way to the logits.
TEST(BadModels, Mxfp4ScaleOf255IsRefusedOrFailsThePass) {
  TinyModel tiny;
  tiny.head_dtype = DType::kMXFP4;
  std::string bytes = tiny_model_writer(tiny).bytes();
  const auto header = parse_gguf_header(std::as_bytes(std::span(bytes)), "tiny", true);
  ASSERT_TRUE(header.ok());
  const auto head = std::ranges::find(header->tensors, "output.weight", &GgufTensorInfo::name);
  ASSERT_NE(head, header->tensors.end());
  bytes[static_cast<size_t>(head->view.data.data() - std::as_bytes(std::span(bytes)).data())] = '\xFF';
  const TempDir dir;
  const auto file = open_model_file(dir.write("bad.gguf", bytes));
  ASSERT_TRUE(file.ok());
  for (const Numerics numerics : {Numerics::kReference, Numerics::kExact, Numerics::kFast}) {
    const auto model = load_language_model(**file, {.numerics = numerics, .n_threads = 1});
    if (!model.ok()) {
      expect_refused(model.status(), ErrorCode::kNonFinite, "output.weight");
      continue;
    }
    KvPagePool pool((*model)->kv_layout(), size_t{16} << 20);
    KvCacheEntry entry(pool);
    const Tokens tokens = {1, 2};
    const SequenceChunk chunk{&entry, tokens, WantLogits::kLast};
    Logits logits;
    EXPECT_EQ((*model)->forward(std::span(&chunk, 1), {}, logits).code(), ErrorCode::kNonFinite);
    EXPECT_EQ(entry.length(), 0u);
  }
}

TEST(BadModels, NonFiniteBlockScaleErrorNamesTensor) {
  TinyModel tiny;
  tiny.without = "blk.1.ffn_up.weight";
  for (const auto& [dtype, at] : {std::pair(DType::kQ8_0, size_t{0}), {DType::kQ4_1, 2}, {DType::kMXFP4, 0}}) {
    GgufWriter writer = tiny_model_writer(tiny);
    const BlockSize block = dtype_block(dtype);
    std::vector<std::byte> rows(tiny.ffn_dim * (tiny.dim / block.values) * block.bytes);
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(70 * block.bytes + at), 2, std::byte{0xff});
    writer.add_tensor(tiny.without, dtype, Shape{{tiny.ffn_dim, tiny.dim}, 2}, rows);
    for (const Numerics numerics : {Numerics::kExact, Numerics::kReference}) {
      expect_refused(load_written(writer, {.numerics = numerics}), ErrorCode::kNonFinite,
                     "tensor blk.1.ffn_up.weight holds a scale that is not finite");
    }
  }
}

// Covers matrices of every kind, and all types of floats.
TEST(BadModels, NonFiniteFloatErrorNamesTensor) {
  TinyModel tiny;
  const size_t q_dim = tiny.n_heads * tiny.head_dim;
  const struct {
    const char* name;
    Shape shape;
  } kMatrices[] = {{"token_embd.weight", {{tiny.vocab_size, tiny.dim}, 2}},
                   {"output.weight", {{tiny.vocab_size, tiny.dim}, 2}},
                   {"blk.0.attn_k.weight", {{tiny.n_kv_heads * tiny.head_dim, tiny.dim}, 2}},
                   {"blk.1.attn_output.weight", {{tiny.dim, q_dim}, 2}},
                   {"blk.2.ffn_down.weight", {{tiny.dim, tiny.ffn_dim}, 2}}};
  for (const auto& matrix : kMatrices) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
      for (const double bad : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
        tiny.without = matrix.name;
        GgufWriter writer = tiny_model_writer(tiny);
        const size_t n = matrix.shape.elements();
        if (dtype == DType::kF64) {
          std::vector<double> values(n, 0.1);
          values[n - 1] = bad;
          writer.add_tensor(matrix.name, dtype, matrix.shape, std::as_bytes(std::span(values)));
        } else {
          std::vector<float> values(n, 0.1f);
          values[n - 1] = static_cast<float>(bad);
          add_tensor_of(writer, matrix.name, dtype, matrix.shape, values);
        }
        SCOPED_TRACE(std::string(dtype_name(dtype)));
        for (const Numerics numerics : {Numerics::kExact, Numerics::kReference}) {
          expect_refused(load_written(writer, {.numerics = numerics}), ErrorCode::kNonFinite,
                         std::string("tensor ") + matrix.name + " holds a value that is not finite");
        }
      }
    }
  }
}

// The weights are finite, but products of them are not. The next layers have int8 inputs, which cannot hold NaN, so the
// logits would not show it. The pass must fail even without logits, and the sequence resume from its last commit.
TEST(BadModels, OverflowErrorNamesLayerAndKeepsEntry) {
  TinyModel tiny;
  tiny.matrix_dtype = tiny.head_dtype = DType::kQ4_0;
  const auto good = load_tiny_model(tiny, {.n_threads = 1});
  tiny.without = "blk.1.ffn_down.weight";
  GgufWriter writer = tiny_model_writer(tiny);
  add_tensor_of(writer, tiny.without, DType::kF32, Shape{{tiny.dim, tiny.ffn_dim}, 2},
                std::vector<float>(tiny.dim * tiny.ffn_dim, std::numeric_limits<float>::max()));
  const TempDir dir;
  ASSERT_TRUE(writer.write(dir.file("bad.gguf")).ok());
  const auto file = open_model_file(dir.file("bad.gguf"));
  KvPagePool pool(good->kv_layout(), size_t{16} << 20);
  KvCacheEntry entry(pool), untouched(pool);
  const Tokens tokens = random_tokens(40, tiny.vocab_size, 1);
  const auto feed = [&](LanguageModel& model, KvCacheEntry& to, TokenSpan part, WantLogits want, Logits& logits) {
    const SequenceChunk chunk{&to, part, want};
    return model.forward(std::span(&chunk, 1), {}, logits);
  };
  Logits got, wanted;
  for (KvCacheEntry* of : {&entry, &untouched}) {
    ASSERT_TRUE(feed(*good, *of, TokenSpan(tokens).first(5), WantLogits::kLast, got).ok());
  }
  for (const Numerics numerics : {Numerics::kExact, Numerics::kReference}) {
    const auto bad = load_language_model(**file, {.numerics = numerics, .n_threads = 2});
    ASSERT_TRUE(bad.ok()) << bad.status().to_string();
    for (const size_t n : {1u, 35u}) {
      for (const WantLogits want : {WantLogits::kNone, WantLogits::kLast}) {
        const Status status = feed(**bad, entry, TokenSpan(tokens).subspan(5, n), want, got);
        EXPECT_EQ(status.code(), ErrorCode::kNonFinite);
        EXPECT_EQ(status.message(), "layer 1 computed a number that is not finite");
        EXPECT_EQ(entry.length(), 5u);
      }
    }
  }
  ASSERT_TRUE(feed(*good, entry, TokenSpan(tokens).subspan(5), WantLogits::kAll, got).ok());
  ASSERT_TRUE(feed(*good, untouched, TokenSpan(tokens).subspan(5), WantLogits::kAll, wanted).ok());
  for (size_t i = 0; i < wanted.n_rows(); ++i) EXPECT_TRUE(std::ranges::equal(got.row(i), wanted.row(i))) << i;
}

// llama.cpp's rules for a factor without a type, and for a factor of 0.
TEST(BadModels, RopeFactorWithoutATypeIsLinear) {
  const auto rule = [](const char* type, float factor) {
    GgufWriter writer = tiny_model_writer({});
    if (type != nullptr) writer.add_string("llama.rope.scaling.type", type);
    writer.add_f32("llama.rope.scaling.factor", factor);
    const TempDir dir;
    const auto file = open_model_file(dir.write("model.gguf", writer.bytes()));
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    const auto config = read_config(**file);
    EXPECT_TRUE(config.ok()) << config.status().to_string();
    return config->ropes[0];
  };
  EXPECT_EQ(rule(nullptr, 4).kind, RopeRule::Kind::kLinear);
  EXPECT_EQ(rule(nullptr, 4).factor, 4);
  EXPECT_EQ(rule("", 4).factor, rule("linear", 4).factor);
  const RopeRule usual;
  for (const RopeRule& none : {rule("none", 4), rule(nullptr, 0), rule("linear", 0)}) {
    EXPECT_EQ(none.kind, usual.kind);
    EXPECT_EQ(none.factor, usual.factor);
  }
}

TEST(BadModels, UnsupportedRopeScalingIsNamed) {
  GgufWriter writer = tiny_model_writer({});
  writer.add_string("llama.rope.scaling.type", "spiral");
  expect_refused(load_written(writer), ErrorCode::kUnsupported, "rope scaling 'spiral'");
}

TEST(BadModels, TooLittleMemoryIsReported) {
  const Status status = load_written(tiny_model_writer({}), {.max_seq_len = 16777216, .max_chunk = 16777216});
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("available"));
}

TEST(BadModels, TokensBeyondVocabularyOrContextAreRefused) {
  TinyModel tiny;
  tiny.context = 64;
  const auto model = load_tiny_model(tiny, {.n_threads = 1});
  KvPagePool pool(model->kv_layout(), size_t{16} << 20);
  KvCacheEntry entry(pool);
  Logits logits;
  const auto forward = [&](const Tokens& tokens) {
    const SequenceChunk chunk{&entry, tokens, WantLogits::kLast};
    return model->forward(std::span(&chunk, 1), {}, logits);
  };
  EXPECT_EQ(forward({1, 120}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(forward({-1}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(forward({}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(forward(Tokens(65, 1)).code(), ErrorCode::kContextFull);
  EXPECT_EQ(entry.length(), 0u);
  EXPECT_TRUE(forward(Tokens(64, 1)).ok());
  const Status full = forward({1});
  EXPECT_EQ(full.code(), ErrorCode::kContextFull);
  EXPECT_THAT(full.message(), HasSubstr("65"));
  EXPECT_THAT(full.message(), HasSubstr("64"));
}

}  // namespace
}  // namespace ibid
