// Loading a tokenizer from the metadata of a GGUF file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/byte_alphabet.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"
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

}  // namespace
}  // namespace ibid
