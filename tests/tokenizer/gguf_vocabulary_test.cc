// A tokenizer.json written as GGUF metadata gives the same tokens; what GGUF cannot express is rejected by name.
#include "tokenizer/loading/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/json_limits.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "tests/tokenizer/memory_model_file.h"

namespace ibid {
namespace {

using testing::HasSubstr;

constexpr const char* kConfig = R"({"bos_token": "<|bos|>", "eos_token": "<|im_end|>", "chat_template": "{{ x }}"})";

// The golden tokenizer of a family, without added tokens whose flags GGUF cannot express.
std::string golden_json(const std::string& family, bool with_flags = false) {
  Json root = parse_json(read_whole_file(golden_dir() + "/tokenizer/" + family + ".json"), family).value();
  Json added = Json::array();
  for (const Json& token : root["added_tokens"]) {
    const bool flagged = token["lstrip"] == true || token["rstrip"] == true || token["single_word"] == true ||
                         token["normalized"] == true;
    if (with_flags || !flagged) added.push_back(token);
  }
  root["added_tokens"] = added;
  return json_to_string(root);
}

class GgufVocabulary : public testing::Test {
 protected:
  // Converts and compares; returns the first error of either step.
  Status convert(const ModelFile& file, size_t n_rows = 1 << 20) {
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    TRY(write_gguf_vocabulary(file, n_rows, writer));
    TRY(writer.write(dir_.file("vocabulary.gguf")));
    TRY_ASSIGN(written_, open_model_file(dir_.file("vocabulary.gguf"), {.vocabulary_only = true}));
    return check_same_tokenizer(file, *written_);
  }

  std::string text_of(const char* key) const { return std::string(written_->get_string(key).value().value_or("")); }

  TempDir dir_;
  std::unique_ptr<ModelFile> written_;
};

TEST_F(GgufVocabulary, ConversionToGgufKeepsTokens) {
  const std::pair<const char*, const char*> kPretokenizers[] = {
      {"gpt2", "gpt-2"},     {"smollm", "smollm"},
      {"llama3", "llama3"},  {"qwen2", "qwen2"},
      {"qwen35", "qwen35"},  {"o200k", "gpt-4o"},
      {"tekken", "tekken"},  {"deepseek_v3", "deepseek-v3"},
      {"falcon", "falcon"},  {"deepseek_coder", "deepseek-coder"},
      {"kimi_k2", "kimi-k2"}};
  for (const auto& [family, pretokenizer] : kPretokenizers) {
    SCOPED_TRACE(family);
    const MemoryModelFile file({{"tokenizer.json", golden_json(family)}, {"tokenizer_config.json", kConfig}});
    const Status status = convert(file, 500);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(text_of("tokenizer.ggml.model"), "gpt2");
    EXPECT_EQ(text_of("tokenizer.ggml.pre"), pretokenizer);
    EXPECT_EQ(text_of("tokenizer.chat_template"), "{{ x }}");
    EXPECT_EQ(written_->get_strings("tokenizer.ggml.tokens").value()->size(), 500u);
    EXPECT_EQ(written_->get_strings("tokenizer.ggml.tokens").value()->back(), "[PAD499]");
  }
}

// The golden Unigram tokenizer with T5's steps, its scores as floats, and no added token that is not a piece.
Json t5_json() {
  Json root = parse_json(golden_json("unigram"), "unigram").value();
  Json& vocabulary = root["model"]["vocab"];
  Json added = Json::array();
  for (const Json& token : root["added_tokens"]) {
    for (Json& piece : vocabulary) {
      if (piece[0] != token["content"]) continue;
      piece[1] = 0.0;
      added.push_back(token);
    }
  }
  for (Json& piece : vocabulary) piece[1] = piece[1].get<float>();
  root["added_tokens"] = added;
  Json& steps = root["normalizer"]["normalizers"];
  steps.insert(steps.begin() + 1, Json{{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  root["pre_tokenizer"] =
      Json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
  root["decoder"] = root["pre_tokenizer"];
  root["post_processor"] = nullptr;
  return root;
}

TEST_F(GgufVocabulary, UnigramWithTheStepsOfT5GivesTheSameTokens) {
  using Change = void (*)(Json & root);
  const Change kSame[] = {
      [](Json&) {},
      [](Json& j) { j["normalizer"]["normalizers"].erase(0); },
      [](Json& j) { j["normalizer"] = nullptr; },
      [](Json& j) { j["pre_tokenizer"]["prepend_scheme"] = j["decoder"]["prepend_scheme"] = "never"; },
  };
  for (const Change change : kSame) {
    Json root = t5_json();
    change(root);
    const MemoryModelFile file({{"tokenizer.json", json_to_string(root)}});
    const Status status = convert(file, 500);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(text_of("tokenizer.ggml.model"), "t5");
    EXPECT_EQ(written_->get_strings("tokenizer.ggml.tokens").value()->size(), 500u);
  }
}

TEST_F(GgufVocabulary, UnigramWithStepsOtherThanThoseOfT5IsRejected) {
  using Change = void (*)(Json & root);
  const std::pair<const char*, Change> kRefused[] = {
      {"the pre-tokenizer of this Unigram model", [](Json& j) { j["pre_tokenizer"]["prepend_scheme"] = "first"; }},
      {"the pre-tokenizer of this Unigram model", [](Json& j) { j["pre_tokenizer"]["split"] = false; }},
      {"this normalizer",
       [](Json& j) {
         j["normalizer"] = Json{{"type", "NFKC"}};
       }},
      {"the score of the token '!'", [](Json& j) { j["model"]["vocab"][3][1] = -9.1848; }},
      {"is not a token of the Unigram model",
       [](Json& j) {
         Json token = j["added_tokens"][0];
         token["content"] = "<new>";
         token["id"] = j["model"]["vocab"].size();
         j["added_tokens"].push_back(token);
       }},
  };
  for (const auto& [words, change] : kRefused) {
    Json root = t5_json();
    change(root);
    const Status status = convert(MemoryModelFile({{"tokenizer.json", json_to_string(root)}}));
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
}

TEST_F(GgufVocabulary, UnsupportedTokenizerIsReported) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"mixed_steps", "tokenizer.ggml.pre has no name for it"},
      {"unigram", "this normalizer of a Unigram model"},
      {"words_unknown", "BPE over characters without byte_fallback"}};
  for (const auto& [family, words] : kRefused) {
    SCOPED_TRACE(family);
    const MemoryModelFile file({{"tokenizer.json", golden_json(family)}, {"tokenizer_config.json", kConfig}});
    const Status status = convert(file);
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
  // <SL> takes the white space before it.
  const MemoryModelFile flagged({{"tokenizer.json", golden_json("gpt2", true)}, {"tokenizer_config.json", kConfig}});
  const Status status = convert(flagged);
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("other tokens for the text"));
}

TEST_F(GgufVocabulary, TokenBeyondTheEmbeddingIsRejected) {
  const MemoryModelFile file({{"tokenizer.json", golden_json("gpt2")}, {"tokenizer_config.json", kConfig}});
  const Status status = convert(file, 100);
  EXPECT_EQ(status.code(), ErrorCode::kBadVocab) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("the embedding only 100 rows"));
}

TEST_F(GgufVocabulary, DirectoryWithoutATokenizerGivesGgufWithoutVocabulary) {
  const MemoryModelFile file({});
  ASSERT_TRUE(convert(file).ok());
  EXPECT_EQ(text_of("tokenizer.ggml.model"), "none");
}

// $IBID_TOKENIZERS: a directory with one subdirectory per model, each with the tokenizer.json of a real model.
TEST_F(GgufVocabulary, RealModelVocabulariesAreConvertedExactlyOrRefused) {
  const char* directories = std::getenv("IBID_TOKENIZERS");
  if (directories == nullptr) GTEST_SKIP() << "set IBID_TOKENIZERS";
  for (const auto& entry : std::filesystem::directory_iterator(directories)) {
    const auto file = open_model_file(entry.path().string(), {.vocabulary_only = true});
    if (!file.ok()) continue;
    const Status status = convert(**file);
    std::printf("%-24s %s\n", entry.path().filename().c_str(), status.ok() ? "the same" : status.to_string().c_str());
    EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace ibid
