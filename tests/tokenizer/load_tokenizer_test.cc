#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/support/byte_alphabet.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "tests/tokenizer/memory_model_file.h"
#include "tokenizer/tokenizer.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::HasSubstr;

// A GGUF vocabulary that loads: all bytes, "he", "ll", two control tokens. Each test breaks one part.
struct GgufVocabulary {
  std::string model = "gpt2", pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges = {"h e", "l l"};
  std::vector<std::pair<std::string, uint32_t>> ids = {{"bos_token_id", 258}, {"eos_token_id", 259}};
  std::vector<std::pair<std::string, bool>> flags;
  std::string huggingface_json, chat_template;
  uint64_t embedding_rows = 0;
  std::optional<uint64_t> cut_to_bytes;  // truncates the file between opening it and reading its vocabulary

  GgufVocabulary() {
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      add(bytes_to_alphabet({&byte, 1}), 1);
    }
    add("he", 1);
    add("ll", 1);
    add("<|im_start|>", 3);
    add("<|im_end|>", 3);
    add("<think>", 4);
  }
  void add(const std::string& token, int32_t type) {
    tokens.push_back(token);
    types.push_back(type);
  }

  Result<std::unique_ptr<Tokenizer>> load() const {
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    if (!model.empty()) writer.add_string("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) writer.add_i32s("tokenizer.ggml.token_type", types);
    writer.add_strings("tokenizer.ggml.merges", merges);
    for (const auto& [key, id] : ids) writer.add_u32("tokenizer.ggml." + key, id);
    for (const auto& [key, flag] : flags) writer.add_bool("tokenizer.ggml." + key, flag);
    if (!chat_template.empty()) writer.add_string("tokenizer.chat_template", chat_template);
    if (!huggingface_json.empty()) writer.add_string("tokenizer.huggingface.json", huggingface_json);
    if (embedding_rows > 0) {
      add_tensor_of(writer, "token_embd.weight", DType::kF32, {{embedding_rows, 32}, 2},
                    std::vector<float>(embedding_rows * 32));
    }
    const TempDir dir;
    const std::string path = dir.file("model.gguf");
    TRY(writer.write(path));
    TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(path, {.vocabulary_only = embedding_rows == 0}));
    if (cut_to_bytes) std::filesystem::resize_file(path, *cut_to_bytes);
    return load_tokenizer(*file);
  }
};

Tokens all_ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, TextOrigin::kTemplate);
}

TEST(LoadGguf, VocabularyIsReadFromGguf) {
  const auto tokenizer = GgufVocabulary().load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(all_ids(**tokenizer, "hello<|im_end|><think>"), (Tokens{256, 257, 'o', 259, 260}));
  EXPECT_EQ((*tokenizer)->bos(), 258);
  EXPECT_EQ((*tokenizer)->eos(), 259);
  EXPECT_EQ((*tokenizer)->end_of_turn(), (std::vector<TokenId>{259}));
  EXPECT_FALSE((*tokenizer)->is_special(260));
}

TEST(LoadGguf, FileTruncatedDuringLoadIsRejected) {
  GgufVocabulary v;
  for (int i = 0; i < 2000; ++i) v.add("token" + std::to_string(i), 1);
  ASSERT_TRUE(v.load().ok());
  for (const uint64_t bytes : {0, 5000, 9000, 20000}) {
    v.cut_to_bytes = bytes;
    EXPECT_EQ(v.load().status().code(), ErrorCode::kChangedOnDisk) << bytes;
  }
}

TEST(LoadGguf, FileOrFamilySetsAddedBosAndEos) {
  GgufVocabulary plain, added, llama3, off;
  added.flags = {{"add_bos_token", true}, {"add_eos_token", true}};
  llama3.pre = off.pre = "llama-bpe";
  off.flags = {{"add_bos_token", false}};
  EXPECT_EQ((*plain.load())->encode("", TextOrigin::kInput, true), Tokens{});
  EXPECT_EQ((*added.load())->encode("", TextOrigin::kInput, true), (Tokens{258, 259}));
  EXPECT_EQ((*llama3.load())->encode("", TextOrigin::kInput, true), (Tokens{258}));
  EXPECT_EQ((*off.load())->encode("", TextOrigin::kInput, true), Tokens{});
}

TEST(LoadGguf, EndOfTurnTokensAreThoseOfTheFileAndWellKnownNames) {
  GgufVocabulary v;
  v.add("<|eot_id|>", 3);
  v.add("<end>", 3);
  v.ids = {{"eos_token_id", 258}, {"eot_token_id", 262}};
  EXPECT_THAT((*v.load())->end_of_turn(), testing::UnorderedElementsAre(258, 262, 259, 261));
}

TEST(LoadGguf, HarmonyEndTokenDoesNotEndATurn) {
  GgufVocabulary v;
  for (const char* text : {"<|end|>", "<|return|>", "<|call|>"}) v.add(text, 3);
  v.ids = {{"eos_token_id", 262}};
  EXPECT_THAT((*v.load())->end_of_turn(), testing::UnorderedElementsAre(262, 263, 259));
}

TEST(LoadGguf, PrefersAnEmbeddedTokenizerJson) {
  GgufVocabulary v;
  v.pre = "unknown to us";
  v.huggingface_json = read_whole_file(golden_dir() + "/tokenizer/smollm.json");
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(all_ids(**tokenizer, "hello 42"), all_ids(*load_golden_tokenizer("smollm"), "hello 42"));
  EXPECT_EQ((*tokenizer)->bos(), 258);
}

// A change that breaks a valid vocabulary in one way.
struct HostileVocabulary {
  const char* name;
  ErrorCode code;
  const char* words;  // text in the error message
  std::function<void(GgufVocabulary&)> breaks;
};
void PrintTo(const HostileVocabulary& hostile, std::ostream* out) { *out << hostile.name; }

class LoadHostileGguf : public testing::TestWithParam<HostileVocabulary> {};

TEST_P(LoadHostileGguf, HostileVocabularyIsRefusedByName) {
  GgufVocabulary v;
  GetParam().breaks(v);
  const auto tokenizer = v.load();
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(error_code_name(tokenizer.status().code()), error_code_name(GetParam().code))
      << tokenizer.status().message();
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(GetParam().words));
  EXPECT_LT(tokenizer.status().message().size(), 1'000u);
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadHostileGguf,
    testing::ValuesIn(std::vector<HostileVocabulary>{
        {"MoreTokensThanEmbeddingRows", ErrorCode::kBadVocab, "260 rows", [](auto& v) { v.embedding_rows = 260; }},
        {"TokenOfAMegabyte", ErrorCode::kBadVocab, "bytes", [](auto& v) { v.add(std::string(1 << 20, 'x'), 1); }},
        {"TypesAreTooFew", ErrorCode::kBadVocab, "260 entries for 261 tokens", [](auto& v) { v.types.pop_back(); }},
        {"NoTokens", ErrorCode::kBadVocab, "0 entries", [](auto& v) { v.tokens.clear(); }},
        {"MergeNamesAMissingToken", ErrorCode::kBadMerge, "'xyz'", [](auto& v) { v.merges.push_back("h xyz"); }},
        {"MergeOfAMissingResult", ErrorCode::kBadMerge, "'hl'", [](auto& v) { v.merges.push_back("h l"); }},
        {"MergeResultLongerThanAnyToken", ErrorCode::kBadMerge, "hehe", [](auto& v) { v.merges.push_back("he he"); }},
        {"MergeWithoutTwoSides", ErrorCode::kBadMerge, "two sides", [](auto& v) { v.merges.push_back("he"); }},
        {"MergeOfNothing", ErrorCode::kBadMerge, "empty side", [](auto& v) { v.merges.push_back(" h"); }},
        {"MergeIntoItself", ErrorCode::kBadMerge, "empty side", [](auto& v) { v.merges.push_back("h "); }},
        {"MergeOfACharacterOutsideTheAlphabet", ErrorCode::kBadMerge, "lacks",
         [](auto& v) { v.merges.push_back("\u4E00 h"); }},
        {"UnknownModel", ErrorCode::kUnsupported, "'rwkv'", [](auto& v) { v.model = "rwkv"; }},
        {"UnknownPretokenizer", ErrorCode::kUnsupported, "'new-one'", [](auto& v) { v.pre = "new-one"; }},
        {"NoModel", ErrorCode::kMissingKey, "tokenizer.ggml.model", [](auto& v) { v.model.clear(); }},
    }),
    [](const auto& hostile) { return hostile.param.name; });

// Each gives a good vocabulary one defect that costs a warning.
struct BlemishedVocabulary {
  const char* name;
  const char* words;  // in the warning
  std::function<void(GgufVocabulary&)> breaks;
  std::string text;  // in a template
  Tokens ids;
};
void PrintTo(const BlemishedVocabulary& blemished, std::ostream* out) { *out << blemished.name; }

class LoadBlemishedGguf : public testing::TestWithParam<BlemishedVocabulary> {};

TEST_P(LoadBlemishedGguf, VocabularyWithADefectLoadsWithAWarning) {
  GgufVocabulary v;
  GetParam().breaks(v);
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  ASSERT_EQ((*tokenizer)->warnings().size(), 1u);
  const std::string& warning = (*tokenizer)->warnings().front();
  EXPECT_THAT(warning, HasSubstr("model.gguf: "));
  EXPECT_THAT(warning, HasSubstr(GetParam().words));
  EXPECT_LT(warning.size(), 1'000u);
  EXPECT_EQ(all_ids(**tokenizer, GetParam().text), GetParam().ids);
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    EXPECT_EQ((*tokenizer)->token_bytes(token).empty(), v.tokens[id].empty()) << id;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadBlemishedGguf,
    testing::ValuesIn(std::vector<BlemishedVocabulary>{
        {"BosOutOfRange", "bos_token_id is 261", [](auto& v) { v.ids[0].second = 261; }, "he", {256}},
        {"EosOutOfRange", "eos_token_id is 4294967295", [](auto& v) { v.ids[1].second = UINT32_MAX; }, "he", {256}},
        {"EotOutOfRange",
         "eot_token_id is 9999",
         [](auto& v) {
           v.ids.push_back({"eot_token_id", 9999});
         },
         "he",
         {256}},
        {"TwoTokensOfOneText",
         "the text of an earlier token: 1, the first is 261 'he'",
         [](auto& v) { v.add("he", 1); },
         "he",
         {256}},
        {"ManyTokensOfOneText",
         "the text of an earlier token: 500, the first is 261 'he'",
         [](auto& v) {
           for (int i = 0; i < 500; ++i) v.add("he", 1);
         },
         "he",
         {256}},
        {"TwoControlTokensOfOneText",
         "the text of an earlier token",
         [](auto& v) { v.add("<|im_end|>", 3); },
         "<|im_end|>",
         {259}},
        {"AControlTokenWithTheTextOfAnotherToken",
         "the text of an earlier token",
         [](auto& v) { v.add("he", 3); },
         "he",
         {261}},
        {"MergesOfALostText",
         "the text of an earlier token: 1",
         [](auto& v) { v.tokens[257] = "he"; },
         "hell",
         {256, 'l', 'l'}},
        {"EmptyToken", "without text: 1, the first is 7", [](auto& v) { v.tokens[7].clear(); }, "he", {256}},
        {"EmptyControlToken", "without text: 1, the first is 261", [](auto& v) { v.add("", 3); }, "he", {256}},
        {"LongControlToken",
         "too long to be found",
         [](auto& v) { v.add(std::string(1025, 'x'), 3); },
         "xx",
         {'x', 'x'}},
        {"TypeIsUnknown", "unknown type: 1, the first is 256 'he'", [](auto& v) { v.types[256] = 7; }, "he", {256}},
        {"ByteTokenMinusOne", "do not name a byte", [](auto& v) { v.add("<0x-1>", 6); }, "he", {256}},
        {"ByteTokenOfNoDigits", "do not name a byte", [](auto& v) { v.add("<0xZZ>", 6); }, "he", {256}},
        {"ByteTokenTooLarge", "do not name a byte", [](auto& v) { v.add("<0x100>", 6); }, "he", {256}},
        {"TurnEndTypedNormal",
         "types otherwise: 1, the first is 259 '<|im_end|>'",
         [](auto& v) { v.types[259] = 1; },
         "he",
         {256}},
        {"TurnEndTypedUserDefined",
         "types otherwise: 1",
         [](auto& v) { v.types[259] = 4; },
         "he<|im_end|>",
         {256, 259}},
        {"ControlTokensOfTheTemplateTypedUserDefined",
         "types otherwise: 2, the first is 258 '<|im_start|>'",
         [](auto& v) {
           v.types[258] = v.types[259] = 4;
           v.chat_template = "<|im_start|>{{ x }}";
         },
         "<|im_start|>he",
         {258, 256}},
        {"NoTypes",
         "token_type is missing",
         [](auto& v) { v.types.clear(); },
         "<|im_start|>he<|im_end|>",
         {258, 256, 259}},
        {"NoPretokenizer", "tokenizer.ggml.pre is missing", [](auto& v) { v.pre.clear(); }, "he", {256}},
        {"AddsABosThatIsNotNamed",
         "add_bos_token is true",
         [](auto& v) {
           v.ids.erase(v.ids.begin());
           v.flags = {{"add_bos_token", true}};
         },
         "he",
         {256}},
    }),
    [](const auto& blemished) { return blemished.param.name; });

TEST(LoadGguf, ControlTokensOfWrongTypeEndTurnsAndAreNotMatchedInMessages) {
  for (const int type : {1, 4}) {
    GgufVocabulary v;
    v.types[259] = type;
    v.ids[1].second = 258;
    const auto tokenizer = v.load();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_THAT((*tokenizer)->end_of_turn(), testing::UnorderedElementsAre(258, 259));
    EXPECT_TRUE((*tokenizer)->is_special(259));
    const Tokens ids = (*tokenizer)->encode("<|im_end|>", TextOrigin::kInput);
    EXPECT_EQ(std::ranges::count(ids, 259), 0);
  }
}

// Words that only look like control tokens, and markup that models write, keep their type.
TEST(LoadGguf, TokensThatOnlyLookLikeControlTokensKeepTheirType) {
  GgufVocabulary v;
  v.chat_template = "<tool_call>a|b <|> <b> </s> <|two words|>";
  for (const char* text : {"<tool_call>", "</s>", "<|>", "<b>", "<|two words|>", "<|elsewhere|>"}) v.add(text, 1);
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  for (TokenId id = 260; id < 267; ++id) EXPECT_FALSE((*tokenizer)->is_special(id)) << id;
  EXPECT_TRUE((*tokenizer)->warnings().empty());
}

// llama.cpp's rule for files from before the key exist.
TEST(LoadGguf, TextsAreSplitAsDefaultIfNoPretokenizerIsNamed) {
  GgufVocabulary without, with;
  without.pre.clear();
  with.pre = "default";
  const auto a = without.load(), b = with.load();
  ASSERT_TRUE(a.ok() && b.ok());
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(random, i % 2 == 0);
    EXPECT_EQ(all_ids(**a, text), all_ids(**b, text)) << text;
  }
}

TEST(LoadGguf, EmbeddingRowsWithoutTokensArePadding) {
  GgufVocabulary v;
  v.embedding_rows = 272;
  EXPECT_TRUE(v.load().ok());
}

TEST(LoadGguf, ManyDuplicateMergesLoad) {
  GgufVocabulary v;
  v.merges.assign(1'000'000, "h e");
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(all_ids(**tokenizer, "hehe"), (Tokens{256, 256}));
}

TEST(LoadGguf, VocabularyWithoutByteTokensEncodesAnyText) {
  GgufVocabulary v;
  v.tokens = {"a", "b", "<|im_end|>"};
  v.types = {1, 1, 3};
  v.merges.clear();
  v.ids.clear();
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(all_ids(**tokenizer, "xaybz\xFF<|im_end|>"), (Tokens{0, 1, 2}));
}

Json golden_json() {
  const std::string text = read_whole_file(golden_dir() + "/tokenizer/llama3.json");
  return *parse_json(text, "llama3.json");
}

Result<std::unique_ptr<Tokenizer>> load_json(const std::string& text, std::string config = "",
                                             std::string generation = "") {
  std::map<std::string, std::string, std::less<>> companions{{"tokenizer.json", text}};
  if (!config.empty()) companions.emplace("tokenizer_config.json", config);
  if (!generation.empty()) companions.emplace("generation_config.json", generation);
  return load_tokenizer(MemoryModelFile(companions));
}

struct HostileTokenizerJson {
  const char* name;
  ErrorCode code;
  const char* words;
  std::function<void(Json&)> breaks;
};
void PrintTo(const HostileTokenizerJson& hostile, std::ostream* out) { *out << hostile.name; }

class LoadHostileJson : public testing::TestWithParam<HostileTokenizerJson> {};

TEST_P(LoadHostileJson, HostileTokenizerJsonIsRefusedByName) {
  Json json = golden_json();
  GetParam().breaks(json);
  const auto tokenizer = load_json(json.dump());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(error_code_name(tokenizer.status().code()), error_code_name(GetParam().code))
      << tokenizer.status().message();
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadHostileJson,
    testing::ValuesIn(std::vector<HostileTokenizerJson>{
        {"NoModel", ErrorCode::kMissingKey, "model is missing", [](Json& j) { j.erase("model"); }},
        {"UnknownModel", ErrorCode::kUnsupported, "'WordPiece'", [](Json& j) { j["model"]["type"] = "WordPiece"; }},
        {"Dropout", ErrorCode::kUnsupported, "dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }},
        {"Prefixes", ErrorCode::kUnsupported, "continuing_subword_prefix",
         [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }},
        {"Suffixes", ErrorCode::kUnsupported, "end_of_word_suffix",
         [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
        {"VocabIsNoObject", ErrorCode::kBadVocab, "not an object", [](Json& j) { j["model"]["vocab"] = 3; }},
        {"VocabIsEmpty", ErrorCode::kBadVocab, "empty",
         [](Json& j) {
           j["model"]["vocab"] = Json::object();
           j["added_tokens"] = Json::array();
         }},
        {"IdIsNegative", ErrorCode::kBadVocab, "-1", [](Json& j) { j["model"]["vocab"]["zzz"] = -1; }},
        {"IdIsHuge", ErrorCode::kBadVocab, "4000000000", [](Json& j) { j["model"]["vocab"]["zzz"] = 4'000'000'000; }},
        {"IdIsNoNumber", ErrorCode::kBadVocab, "'zzz'", [](Json& j) { j["model"]["vocab"]["zzz"] = "7"; }},
        {"AddedTokenWithoutContent", ErrorCode::kBadVocab, "no content",
         [](Json& j) {
           j["added_tokens"].push_back(Json{{"id", 1}});
         }},
        {"MergesAreNoArray", ErrorCode::kBadMerge, "not an array", [](Json& j) { j["model"]["merges"] = "a b"; }},
        {"MergeOfThree", ErrorCode::kBadMerge, "not a pair", [](Json& j) { j["model"]["merges"].push_back("a b c"); }},
        {"MergeIsANumber", ErrorCode::kBadMerge, "not a pair", [](Json& j) { j["model"]["merges"].push_back(7); }},
        {"MergeListOfOne", ErrorCode::kBadMerge, "not a pair",
         [](Json& j) { j["model"]["merges"].push_back(Json::array({"a"})); }},
        {"MergeOfAMissingToken", ErrorCode::kBadMerge, "needs the token",
         [](Json& j) { j["model"]["merges"].push_back("a qqq"); }},
        {"UnknownNormalizer", ErrorCode::kUnsupported, "'BertNormalizer'",
         [](Json& j) {
           j["normalizer"] = Json{{"type", "BertNormalizer"}};
         }},
        {"NormalizersThatGrowWithoutEnd", ErrorCode::kLimitExceeded, "the normalizer may make a text more than 4096",
         [](Json& j) {
           const Json doubles = {{"type", "Replace"}, {"pattern", Json{{"String", "a"}}}, {"content", "aa"}};
           j["normalizer"] = Json{{"type", "Sequence"}, {"normalizers", std::vector<Json>(60, doubles)}};
         }},
        {"UnknownPretokenizer", ErrorCode::kUnsupported, "'UnicodeScripts'",
         [](Json& j) {
           j["pre_tokenizer"]["pretokenizers"][0] = Json{{"type", "UnicodeScripts"}};
         }},
        {"NoPretokenizer", ErrorCode::kUnsupported, "ByteLevel", [](Json& j) { j["pre_tokenizer"] = nullptr; }},
        {"UnknownPattern", ErrorCode::kUnsupported, "'a(?<=b)c' with a group",
         [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a(?<=b)c"; }},
        {"PatternIsEmpty", ErrorCode::kUnsupported, "without a pattern",
         [](Json& j) {
           j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = Json{{"String", ""}};
         }},
        {"UnknownBehavior", ErrorCode::kUnsupported, "the behavior 'Doubled' of Split",
         [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Doubled"; }},
        {"SplitBehindByteLevel", ErrorCode::kUnsupported, "'\\s+' after ByteLevel",
         [](Json& j) {
           j["pre_tokenizer"]["pretokenizers"].push_back(
               Json{{"type", "Split"}, {"pattern", Json{{"Regex", "\\s+"}}}, {"behavior", "Isolated"}});
         }},
        {"PrefixSpace", ErrorCode::kUnsupported, "add_prefix_space",
         [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }},
        {"UnknownPostProcessor", ErrorCode::kUnsupported, "'PairProcessing'",
         [](Json& j) {
           j["post_processor"] = Json{{"type", "PairProcessing"}};
         }},
        {"PostProcessorWithoutCls", ErrorCode::kMissingKey, "post_processor.cls",
         [](Json& j) {
           j["post_processor"] = Json{{"type", "BertProcessing"}};
         }},
        {"PostProcessorIdOutOfRange", ErrorCode::kBadVocab, "post_processor",
         [](Json& j) { j["post_processor"]["special_tokens"]["<|bos|>"]["ids"] = Json::array({100'000}); }},
        {"PostProcessorWithoutIds", ErrorCode::kMissingKey, "<|bos|>",
         [](Json& j) { j["post_processor"]["special_tokens"].erase("<|bos|>"); }},
        {"UnknownDecoder", ErrorCode::kUnsupported, "'Metaspace'",
         [](Json& j) {
           j["decoder"] = Json{{"type", "Metaspace"}};
         }},
        {"UnknownTokensOfAVocabularyWithoutAllBytes", ErrorCode::kUnsupported, "unk_token",
         [](Json& j) {
           j["model"]["unk_token"] = "a";
           j["model"]["vocab"].erase("\u00F1");
         }},
    }),
    [](const auto& hostile) { return hostile.param.name; });

// The byte-level golden with other pre-tokenizers, and without added tokens.
Json with_pretokenizers(const std::string& steps) {
  Json json = golden_json();
  json["added_tokens"] = Json::array();
  json["normalizer"] = json["post_processor"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", *parse_json(steps, "steps")}};
  return json;
}

TEST(LoadJson, ByteLevelWithoutRegexDoesNotSplit) {
  const std::string alone = R"([{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}])";
  for (const bool prefix : {false, true}) {
    Json json = with_pretokenizers(alone);
    json["pre_tokenizer"]["pretokenizers"][0]["add_prefix_space"] = prefix;
    const auto tokenizer = load_json(json.dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    std::mt19937_64 random(test_seed());
    for (int i = 0; i < 200; ++i) {
      const std::string text = random_text(random, i % 2 == 0);
      EXPECT_EQ((*tokenizer)->decode(all_ids(**tokenizer, text)),
                (prefix && !text.empty() && text[0] != ' ' ? " " : "") + text);
    }
  }
  Json only = with_pretokenizers(alone);
  only["pre_tokenizer"] = Json(only["pre_tokenizer"]["pretokenizers"][0]);
  EXPECT_TRUE(load_json(only.dump()).ok());
}

// A step after ByteLevel sees the byte alphabet, even if ByteLevel does not split.
TEST(LoadJson, StepAfterByteLevelWithoutRegexIsRejected) {
  const Json split = golden_json()["pre_tokenizer"]["pretokenizers"][0];
  Json json = with_pretokenizers(R"([{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}])");
  json["pre_tokenizer"]["pretokenizers"].push_back(split);
  const auto tokenizer = load_json(json.dump());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(tokenizer.status().message(), HasSubstr("after ByteLevel"));
}

TEST(LoadJson, PatternEqualToAStepNameIsAPattern) {
  for (const char* pattern : {"Digits:individual", "Whitespace", "ByteLevel"}) {
    for (const char* kind : {"Regex", "String"}) {
      Json json = with_pretokenizers(R"([{"type":"Split","behavior":"Isolated"},
                                         {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}])");
      json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{kind, pattern}};
      const auto tokenizer = load_json(json.dump());
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
      Json whole = with_pretokenizers(R"([{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}])");
      const auto uncut = load_json(whole.dump());
      const std::string text = "it's 12 of 3 and more";
      EXPECT_EQ(all_ids(**tokenizer, text), all_ids(**uncut, text)) << pattern;
    }
  }
}

// Collects the places of all values, except most entries of vocabularies and merges.
void add_places(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& places) {
  places.push_back(at);
  if (!json.is_structured()) return;
  size_t n = 0;
  for (const auto& item : json.items()) {
    if (++n > 12) break;
    add_places(item.value(), json.is_array() ? at / (n - 1) : at / item.key(), places);
  }
}

TEST(LoadJson, ReplacingAnyValueNeverCrashes) {
  const std::vector<Json> others = {nullptr,
                                    true,
                                    -1,
                                    1e300,
                                    uint64_t{1} << 63,
                                    "",
                                    "x",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({Json::array()})};
  for (const std::string family : {"llama3", "prefix_accents", "llama2", "metaspace_words", "unigram"}) {
    const Json json = *parse_json(read_whole_file(golden_dir() + "/tokenizer/" + family + ".json"), family);
    std::vector<Json::json_pointer> places;
    add_places(json, Json::json_pointer(), places);
    EXPECT_GT(places.size(), 50u);
    for (const Json::json_pointer& place : places) {
      Json changed = json;
      for (const Json& other : others) {
        changed[place] = other;
        const auto tokenizer = load_json(changed.dump());
        if (tokenizer.ok()) (*tokenizer)->decode(all_ids(**tokenizer, " A text, of 2 \u00e9."));
      }
    }
  }
}

TEST(LoadJson, DamagedTokenizerJsonNeverCrashes) {
  const std::string text = golden_json().dump();
  std::mt19937_64 random(test_seed());
  size_t n_refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string mangled = text;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % mangled.size();
      switch (random() % 4) {
        case 0: mangled[at] = static_cast<char>(random() % 256); break;
        case 1: mangled.erase(at, random() % 50); break;
        case 2: mangled.insert(at, mangled.substr(random() % mangled.size(), random() % 50)); break;
        default: mangled.resize(at + 1); break;
      }
    }
    const auto tokenizer = load_json(mangled);
    n_refused += tokenizer.ok() ? 0u : 1u;
    if (tokenizer.ok()) (*tokenizer)->encode(random_text(random, true), TextOrigin::kTemplate, true);
  }
  EXPECT_GT(n_refused, 300u);
}

TEST(LoadJson, BosAndEosAreReadFromConfigFiles) {
  const auto tokenizer =
      load_json(golden_json().dump(), R"({"bos_token": {"content": "<|bos|>"}, "eos_token": "<|im_end|>"})",
                R"({"eos_token_id": [423, 421]})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->bos(), (*tokenizer)->find_token("<|bos|>"));
  EXPECT_EQ((*tokenizer)->eos(), (*tokenizer)->find_token("<|im_end|>"));
  EXPECT_THAT((*tokenizer)->end_of_turn(), testing::UnorderedElementsAre(421, 423));
}

TEST(LoadJson, AddedTokensAreNumberedAfterTheVocabulary) {
  Json json = golden_json();
  const auto n = static_cast<TokenId>(json["model"]["vocab"].size());
  json["added_tokens"] = Json::array({Json{{"id", 7}, {"content", "<new>"}, {"special", true}}});
  json["post_processor"] = nullptr;
  const auto tokenizer = load_json(json.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->find_token("<new>"), n);
}

TEST(LoadJson, DefectsOfSingleTokensAreReportedAsWarnings) {
  struct Row {
    const char* words;  // nullptr: no warning
    std::function<void(Json&)> breaks;
  };
  const Row kRows[] = {
      {"with the id of an earlier token: 1, the first is 3 'zzz'", [](Json& j) { j["model"]["vocab"]["zzz"] = 3; }},
      {"without text: 1, the first is 500", [](Json& j) { j["model"]["vocab"][""] = 500; }},
      {"types otherwise: 1",
       [](Json& j) {
         for (Json& token : j["added_tokens"]) {
           if (token["content"] == "<|im_end|>") token["special"] = false;
         }
       }},
      {nullptr, [](Json& j) { j["added_tokens"].push_back(Json(j["added_tokens"][0])); }},
      {nullptr,
       [](Json& j) {
         j["added_tokens"].push_back(Json{{"id", 1}, {"content", ""}});
       }},
      {nullptr, [](Json& j) { j["added_tokens"][0]["id"] = 99'999; }},
  };
  for (const Row& row : kRows) {
    Json json = golden_json();
    row.breaks(json);
    const auto tokenizer = load_json(json.dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    const Tokens ids = all_ids(**tokenizer, "a<|im_end|>b");
    EXPECT_EQ(ids.size(), 3u);
    EXPECT_EQ((*tokenizer)->decode(ids), "a<|im_end|>b");
    ASSERT_EQ((*tokenizer)->warnings().size(), row.words == nullptr ? 0u : 1u);
    if (row.words != nullptr) {
      EXPECT_THAT((*tokenizer)->warnings()[0], HasSubstr(row.words));
    }
  }
}

// transformers adds the special tokens that other files name and tokenizer.json lacks.
TEST(LoadJson, SpecialTokensNamedInOtherFilesAreAdded) {
  Json json = golden_json();
  Json& added = json["added_tokens"];
  const size_t n_vocabulary = json["model"]["vocab"].size();
  for (size_t i = added.size(); i-- > 0;) {
    if (added[i]["content"] == "<|im_end|>") added.erase(i);
  }
  json["model"]["vocab"]["<|im_end|>"] = n_vocabulary;
  json["post_processor"] = nullptr;
  const auto id = static_cast<TokenId>(n_vocabulary);
  const std::pair<const char*, const char*> kFiles[] = {
      {"special_tokens_map.json", R"({"eos_token": "<|im_end|>", "bos_token": {"content": "a"}})"},
      {"special_tokens_map.json", R"({"additional_special_tokens": ["<|im_end|>", 7, {"content": null}]})"},
      {"tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}})"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "<|im_end|>", "special": true}}})"},
      {"tokenizer_config.json", R"({"extra_special_tokens": {"x_token": "<|im_end|>"}})"},
  };
  for (const auto& [name, text] : kFiles) {
    SCOPED_TRACE(text);
    const auto tokenizer = load_tokenizer(MemoryModelFile({{"tokenizer.json", json.dump()}, {name, text}}));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_EQ(all_ids(**tokenizer, "<|im_end|>"), Tokens{id});
    EXPECT_TRUE((*tokenizer)->is_special(id));
    EXPECT_NE((*tokenizer)->encode("<|im_end|>", TextOrigin::kInput), Tokens{id});
  }
  // A text that the model lacks has no id of its own, and a file that cannot be read is a warning.
  for (const auto& [name, text] : {std::pair("added_tokens.json", R"({"<new>": 7, "": 8, "<x>": -1, "<y>": 1e300})"),
                                   std::pair("special_tokens_map.json", R"({"pad_token": "<pad>", "eos_token": 7})"),
                                   std::pair("special_tokens_map.json", "{"), std::pair("added_tokens.json", "[1]")}) {
    SCOPED_TRACE(text);
    const auto tokenizer = load_tokenizer(MemoryModelFile({{"tokenizer.json", golden_json().dump()}, {name, text}}));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_EQ((*tokenizer)->vocab_size(), (*load_json(golden_json().dump()))->vocab_size());
    EXPECT_EQ((*tokenizer)->warnings().size(), text == std::string("{") ? 1u : 0u);
  }
}

TEST(LoadJson, EndOfTurnIdsOutsideTheVocabularyAreWarnings) {
  const auto tokenizer = load_json(golden_json().dump(), "", R"({"eos_token_id": [423, -1, 99999, "x", null, 1.5]})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->warnings().size(), 2u);
  EXPECT_EQ(std::ranges::count((*tokenizer)->end_of_turn(), 423), 1);
}

TEST(LoadJson, DirectoryWithoutTokenizerJsonIsAnError) {
  const auto tokenizer = load_tokenizer(MemoryModelFile({}));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), ErrorCode::kMissingKey);
}

}  // namespace
}  // namespace ibid
