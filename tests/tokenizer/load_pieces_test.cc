// SentencePiece vocabularies in GGUF and tokenizer.json: their meaning, and hostile ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/json_limits.h"
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

// A vocabulary with <unk>, <s>, </s>, 256 bytes, and tokens that a test adds.
struct PieceVocabulary {
  std::string model = "llama", name = "a model", pre;
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  std::vector<float> scores = {0, 0, 0};
  std::vector<std::string> merges;
  std::vector<std::pair<std::string, uint32_t>> ids;
  std::vector<std::pair<std::string, bool>> flags;
  std::string charsmap;

  PieceVocabulary() {
    constexpr const char* kDigits = "0123456789ABCDEF";
    for (size_t b = 0; b < 256; ++b) add(std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">", 6, 0);
    float score = -10;
    for (const char* token : {"\u2581", "h", "e", "l", "o", "\u2581h", "el", "lo", "\u2581hel", "he"}) {
      add(token, 1, score--);
    }
  }
  void add(const std::string& token, int32_t type, float score) {
    tokens.push_back(token);
    types.push_back(type);
    scores.push_back(score);
  }
  TokenId id(const std::string& token) const {
    return static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
  }

  Result<std::unique_ptr<Tokenizer>> load() const {
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    writer.add_string("general.name", name);
    writer.add_string("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) writer.add_i32s("tokenizer.ggml.token_type", types);
    if (!scores.empty()) writer.add_f32s("tokenizer.ggml.scores", scores);
    if (!merges.empty()) writer.add_strings("tokenizer.ggml.merges", merges);
    for (const auto& [key, id] : ids) writer.add_u32("tokenizer.ggml." + key, id);
    if (!charsmap.empty()) {
      writer.add_i32s("tokenizer.ggml.precompiled_charsmap", std::vector<int32_t>(charsmap.begin(), charsmap.end()));
    }
    for (const auto& [key, flag] : flags) writer.add_bool("tokenizer.ggml." + key, flag);
    const TempDir dir;
    const std::string path = dir.file("model.gguf");
    TRY(writer.write(path));
    TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(path, {.vocabulary_only = true}));
    return load_tokenizer(*file);
  }
};

std::string base64_bytes(const std::string& text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size() && text[i] != '='; ++i) {
    bits = bits << 6 | static_cast<uint32_t>(kLetters.find(text[i]));
    if (i % 4 != 0) out += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFF);
  }
  return out;
}

Tokens all(const Tokenizer& tokenizer, std::string_view text, bool add_special = false) {
  return tokenizer.encode(text, TextOrigin::kTemplate, add_special);
}

TEST(LoadPieces, PairWithTheHighestScoreMergesFirst) {
  const PieceVocabulary v;
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  // The merges in order: _h, el, lo, then _hel. "he" is last and finds no h any more.
  EXPECT_EQ(all(**tokenizer, "hello"), (Tokens{v.id("\u2581hel"), v.id("lo")}));
  EXPECT_EQ(all(**tokenizer, "hello", true), (Tokens{1, v.id("\u2581hel"), v.id("lo")}));
  EXPECT_EQ((*tokenizer)->bos(), 1);
  EXPECT_EQ((*tokenizer)->eos(), 2);
  EXPECT_EQ((*tokenizer)->end_of_turn(), (std::vector<TokenId>{2}));
}

TEST(LoadPieces, PairsOfEqualScoreMergeFromTheLeft) {
  PieceVocabulary v;
  v.add("ll", 1, -5);
  const auto tokenizer = v.load();
  EXPECT_EQ(all(**tokenizer, "lll"), (Tokens{v.id("\u2581"), v.id("ll"), v.id("l")}));
}

TEST(LoadPieces, CharacterWithoutATokenBecomesItsBytes) {
  const PieceVocabulary v;
  const auto tokenizer = v.load();
  EXPECT_EQ(all(**tokenizer, "\u00E9\xFF"), (Tokens{v.id("\u2581"), v.id("<0xC3>"), v.id("<0xA9>"), v.id("<0xFF>")}));
  EXPECT_EQ((*tokenizer)->decode(all(**tokenizer, " \u00E9")), " \u00E9");
}

TEST(LoadPieces, SpaceIsAddedBeforeEverySectionUnlessDisabled) {
  PieceVocabulary v;
  const auto with = v.load();
  v.flags = {{"add_space_prefix", false}, {"add_bos_token", false}};
  const auto without = v.load();
  const TokenId h = v.id("h"), spaced = v.id("\u2581h");
  EXPECT_EQ(all(**with, "h</s>h"), (Tokens{spaced, 2, spaced}));
  EXPECT_EQ(all(**without, "h</s>h", true), (Tokens{h, 2, h}));
  EXPECT_EQ((*with)->decode(Tokens{spaced, spaced}), "h h");
  EXPECT_EQ((*without)->decode(Tokens{spaced, spaced}), " h h");
}

TEST(LoadPieces, MessageTextNeverBecomesAControlToken) {
  PieceVocabulary v;
  for (const char* token : {"<", "s", ">", "<s", "s>"}) v.add(token, 1, -1);
  const auto tokenizer = v.load();
  const Tokens ids = (*tokenizer)->encode("<s>", TextOrigin::kInput);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 0);
  EXPECT_EQ((*tokenizer)->decode(ids), "<s>");
}

TEST(LoadPieces, AddedTokensOfPhi3StripSpaces) {
  PieceVocabulary v;
  v.add("<|end|>", 3, 0);
  const auto plain = v.load();
  v.name = "Phi-3 mini";
  const auto phi3 = v.load();
  EXPECT_EQ(all(**plain, "<|end|>\nh").size(), 4u);
  EXPECT_EQ(all(**phi3, "<|end|>\nh"), (Tokens{v.id("<|end|>"), v.id("\u2581h")}));
  EXPECT_EQ(all(**phi3, "<s>\nh").size(), 4u);
}

TEST(LoadPieces, MergeListMayReplaceScores) {
  PieceVocabulary v;
  v.model = "gemma4";
  v.scores.clear();
  v.add("\n", 1, 0);
  v.add("\n\n\n", 1, 0);
  v.scores.clear();
  v.merges = {"e l", "\u2581 h"};
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(all(**tokenizer, " hel"), (Tokens{v.id("\u2581h"), v.id("el")}));
  // A run of line feeds that is a token becomes that token without a merge.
  EXPECT_EQ(all(**tokenizer, "h\n\n\nh"), (Tokens{v.id("h"), v.id("\n\n\n"), v.id("h")}));
  EXPECT_EQ(all(**tokenizer, "\n\n"), (Tokens{v.id("\n"), v.id("\n")}));
  // The same vocabulary under the model name of byte-level BPE: its pre-tokenizer decides.
  v.model = "gpt2";
  for (const char* pre : {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}) {
    v.pre = pre;
    const auto same = v.load();
    ASSERT_TRUE(same.ok()) << same.status().message();
    for (const char* text : {" hel", "\n\n", "a\u00E9"}) EXPECT_EQ(all(**same, text), all(**tokenizer, text)) << text;
    // One of them does not treat runs of line feeds specially.
    EXPECT_EQ(all(**same, "h\n\n\nh") == all(**tokenizer, "h\n\n\nh"), v.pre != "sarvam-moe");
  }
}

struct Hostile {
  const char* name;
  ErrorCode code;
  const char* words;  // text in the error message
  std::function<void(PieceVocabulary&)> breaks;
};
void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class LoadHostilePieces : public testing::TestWithParam<Hostile> {};

TEST_P(LoadHostilePieces, HostileVocabularyIsRefusedByName) {
  PieceVocabulary v;
  GetParam().breaks(v);
  const auto tokenizer = v.load();
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(error_code_name(tokenizer.status().code()), error_code_name(GetParam().code))
      << tokenizer.status().message();
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(GetParam().words));
  EXPECT_THAT(tokenizer.status().message(), HasSubstr("model.gguf"));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadHostilePieces,
    testing::ValuesIn(std::vector<Hostile>{
        {"FewerScoresThanTokens", ErrorCode::kBadVocab, "269 tokens", [](auto& v) { v.scores.pop_back(); }},
        {"AScoreThatIsNoNumber", ErrorCode::kBadVocab, "nan",
         [](auto& v) { v.scores.back() = std::numeric_limits<float>::quiet_NaN(); }},
        {"AnInfiniteScore", ErrorCode::kBadVocab, "inf",
         [](auto& v) { v.scores.back() = -std::numeric_limits<float>::infinity(); }},
        {"ATokenTooLongForItsMerges", ErrorCode::kBadVocab, "600 bytes",
         [](auto& v) { v.add(std::string(600, 'a'), 1, 0); }},
        {"BytesWithoutTokens", ErrorCode::kBadByteToken, "unknown token",
         [](auto& v) {
           v.model = "gemma4";
           v.merges = {"e l"};
           v.types[10] = 1;
           v.tokens[10] = "no byte";
         }},
        {"UnigramWithoutScores", ErrorCode::kMissingKey, "tokenizer.ggml.scores",
         [](auto& v) {
           v.model = "t5";
           v.scores.clear();
         }},
        {"UnigramWithAnInfiniteScore", ErrorCode::kBadVocab, "inf",
         [](auto& v) {
           v.model = "t5";
           v.scores.back() = std::numeric_limits<float>::infinity();
         }},
        {"UnigramWhoseUnknownTokenIsPadding", ErrorCode::kBadVocab, "unknown_token_id is 269, which is not a token",
         [](auto& v) {
           v.model = "t5";
           v.add("[PAD269]", 5, 0);
           v.add("behind", 1, 0);
           v.ids = {{"unknown_token_id", 269}};
         }},
        {"ATableThatIsNone", ErrorCode::kBadVocab, "precompiled_charsmap is damaged",
         [](auto& v) {
           v.model = "t5";
           v.charsmap = "\xFF\xFF\xFF\x7F";
         }},
        {"MergesMissing", ErrorCode::kMissingKey, "tokenizer.ggml.merges", [](auto& v) { v.model = "gemma4"; }},
        {"MergeOfAMissingToken", ErrorCode::kBadMerge, "'zz'",
         [](auto& v) {
           v.model = "gemma4";
           v.merges = {"zz l"};
         }},
        {"MergeWithoutAResult", ErrorCode::kBadMerge, "'ll'",
         [](auto& v) {
           v.model = "gemma4";
           v.merges = {"l l"};
         }},
        {"MergeIntoItself", ErrorCode::kBadMerge, "empty side",
         [](auto& v) {
           v.model = "gemma4";
           v.merges = {"l "};
         }},
    }),
    [](const auto& hostile) { return hostile.param.name; });

struct Blemished {
  const char* name;
  const char* words;  // in the warning
  std::function<void(PieceVocabulary&)> breaks;
};
void PrintTo(const Blemished& blemished, std::ostream* out) { *out << blemished.name; }

class LoadBlemishedPieces : public testing::TestWithParam<Blemished> {};

TEST_P(LoadBlemishedPieces, VocabularyWithADefectLoadsWithAWarning) {
  PieceVocabulary v;
  GetParam().breaks(v);
  const auto tokenizer = v.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  ASSERT_EQ((*tokenizer)->warnings().size(), 1u);
  EXPECT_THAT((*tokenizer)->warnings().front(), HasSubstr("model.gguf: "));
  EXPECT_THAT((*tokenizer)->warnings().front(), HasSubstr(GetParam().words));
  for (const char* text : {"hello\n\u00E9", " he he"}) {
    EXPECT_EQ((*tokenizer)->decode((*tokenizer)->encode(text, TextOrigin::kInput)), text);
  }
  const Tokens ids = (*tokenizer)->encode("hehe", TextOrigin::kInput);
  EXPECT_TRUE(std::ranges::all_of(ids, [&](TokenId id) { return id < v.id("he") + 1; })) << "an earlier token counts";
}

void as_unigram(PieceVocabulary& v) {
  v.model = "t5";
  v.flags = {{"add_space_prefix", false}};
  v.ids = {{"unknown_token_id", 0}, {"eos_token_id", 2}};
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadBlemishedPieces,
    testing::ValuesIn(std::vector<Blemished>{
        {"NoScores", "scores is missing", [](auto& v) { v.scores.clear(); }},
        {"NoTypes", "token_type is missing", [](auto& v) { v.types.clear(); }},
        {"TwoTokensOfOneText", "an earlier token: 1, the first is 269 'he'", [](auto& v) { v.add("he", 1, 0); }},
        {"AnEmptyToken", "without text: 1, the first is 269", [](auto& v) { v.add("", 1, 0); }},
        {"AByteTokenThatNamesNoByte", "do not name a byte of their own", [](auto& v) { v.add("<0xGG>", 6, 0); }},
        {"TwoTokensForOneByte", "do not name a byte of their own", [](auto& v) { v.add("<0x0a>", 6, 0); }},
        {"UnknownTokenOutOfRange", "unknown_token_id is 70000",
         [](auto& v) {
           v.ids = {{"unknown_token_id", 70'000}};
         }},
        {"BosOutOfRange", "bos_token_id is 269",
         [](auto& v) {
           v.ids = {{"bos_token_id", 269}};
         }},
        {"AnUnknownType", "unknown type: 1", [](auto& v) { v.types.back() = 9; }},
        {"UnigramWithATokenTwice", "an earlier token: 1, the first is 269 'he'",
         [](auto& v) {
           as_unigram(v);
           v.add("he", 1, 0);
         }},
    }),
    [](const auto& blemished) { return blemished.param.name; });

TEST(LoadPieces, BytesAndSpecialTokensAreRecognisedWithoutTokenTypes) {
  PieceVocabulary v, without;
  without.types.clear();
  const auto tokenizer = v.load(), same = without.load();
  ASSERT_TRUE(same.ok()) << same.status().message();
  for (const char* text : {"a\nb", "h</s>h", "\u00E9\xFF", "<s>"}) {
    for (const TextOrigin origin : {TextOrigin::kInput, TextOrigin::kTemplate}) {
      EXPECT_EQ((*same)->encode(text, origin), (*tokenizer)->encode(text, origin)) << text;
    }
  }
  EXPECT_EQ((*same)->end_of_turn(), (*tokenizer)->end_of_turn());
  // Names of special tokens are not guessed where the texts are ordinary words.
  without.tokens[1] = "b";
  without.tokens[2] = "c";
  const auto words = without.load();
  ASSERT_TRUE(words.ok()) << words.status().message();
  EXPECT_FALSE((*words)->is_special(1) || (*words)->is_special(2));
}

struct HostileJson {
  const char* name;
  const char* family;
  ErrorCode code;
  const char* words;
  std::function<void(Json&)> breaks;
};
void PrintTo(const HostileJson& hostile, std::ostream* out) { *out << hostile.name; }

class LoadHostilePieceJson : public testing::TestWithParam<HostileJson> {};

TEST_P(LoadHostilePieceJson, HostileTokenizerJsonIsRefusedByName) {
  Json json =
      *parse_json(read_whole_file(golden_dir() + "/tokenizer/" + GetParam().family + ".json"), GetParam().family);
  GetParam().breaks(json);
  const auto tokenizer = load_tokenizer(MemoryModelFile({{"tokenizer.json", json.dump()}}));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(error_code_name(tokenizer.status().code()), error_code_name(GetParam().code))
      << tokenizer.status().message();
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(GetParam().words));
  EXPECT_THAT(tokenizer.status().message(), HasSubstr("tokenizer.json"));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadHostilePieceJson,
    testing::ValuesIn(std::vector<HostileJson>{
        {"UnigramWithoutUnknown", "unigram", ErrorCode::kMissingKey, "model.unk_id is missing",
         [](Json& j) { j["model"]["unk_id"] = nullptr; }},
        {"UnknownOutOfRange", "unigram", ErrorCode::kBadVocab, "model.unk_id is 100000",
         [](Json& j) { j["model"]["unk_id"] = 100'000; }},
        {"UnknownIsNoNumber", "unigram", ErrorCode::kBadVocab, "model.unk_id is -1",
         [](Json& j) { j["model"]["unk_id"] = "<unk>"; }},
        {"ScoresAreMissing", "unigram", ErrorCode::kBadVocab, "model.vocab[3] is not a pair",
         [](Json& j) { j["model"]["vocab"][3] = "x"; }},
        {"AScoreIsNoNumber", "unigram", ErrorCode::kBadVocab, "model.vocab[3] is not a pair",
         [](Json& j) { j["model"]["vocab"][3][1] = "NaN"; }},
        {"VocabIsNoArray", "unigram", ErrorCode::kBadVocab, "not an array",
         [](Json& j) { j["model"]["vocab"] = Json::object(); }},
        {"CharsmapIsNoBase64", "unigram", ErrorCode::kBadVocab, "precompiled_charsmap is damaged",
         [](Json& j) { j["normalizer"]["normalizers"][0]["precompiled_charsmap"] = "????"; }},
        {"CharsmapIsShorterThanItSays", "unigram", ErrorCode::kBadVocab, "precompiled_charsmap is damaged",
         [](Json& j) { j["normalizer"]["normalizers"][0]["precompiled_charsmap"] = "/////w=="; }},
        {"UnknownTokenThatIsNone", "llama2", ErrorCode::kBadVocab, "'<none>'",
         [](Json& j) { j["model"]["unk_token"] = "<none>"; }},
        {"IgnoreMergesWithoutACut", "llama2", ErrorCode::kUnsupported, "ignore_merges",
         [](Json& j) { j["model"]["ignore_merges"] = true; }},
        {"AnotherMark", "metaspace_first", ErrorCode::kUnsupported, "replacement",
         [](Json& j) { j["pre_tokenizer"]["replacement"] = "_"; }},
        {"AnotherScheme", "metaspace_first", ErrorCode::kUnsupported, "'sometimes'",
         [](Json& j) { j["pre_tokenizer"]["prepend_scheme"] = "sometimes"; }},
        {"AReplaceOfAnUnknownPattern", "gemma", ErrorCode::kUnsupported, "a Replace of 'x+?' with a lazy quantifier",
         [](Json& j) {
           j["normalizer"]["pattern"] = Json{{"Regex", "x+?"}};
         }},
        {"AReplaceOfNothing", "gemma", ErrorCode::kUnsupported, "may match nothing",
         [](Json& j) {
           j["normalizer"]["pattern"] = Json{{"Regex", "x*"}};
         }},
        {"MetaspaceBehindAnotherStep", "metaspace_first", ErrorCode::kUnsupported, "Metaspace after other steps",
         [](Json& j) {
           const Json metaspace = j["pre_tokenizer"];
           j["pre_tokenizer"] = Json{{"type", "Sequence"}};
           j["pre_tokenizer"]["pretokenizers"] = Json::array({Json{{"type", "Digits"}}, metaspace});
         }},
        {"AStripThatIsNotTheFirstSpace", "llama2", ErrorCode::kUnsupported, "'Strip'",
         [](Json& j) { j["decoder"]["decoders"][3]["stop"] = 1; }},
        {"NoDecoder", "llama2", ErrorCode::kUnsupported, "decoder", [](Json& j) { j["decoder"] = nullptr; }},
    }),
    [](const auto& hostile) { return hostile.param.name; });

// The Unigram of the golden cases in GGUF's keys: it has T5's steps, except for the split at white space.
PieceVocabulary unigram_vocabulary(const Json& json, const Tokenizer& of_json) {
  PieceVocabulary v;
  v.model = "t5";
  v.tokens.clear();
  v.types.clear();
  v.scores.clear();
  for (const Json& entry : json["model"]["vocab"]) {
    v.add(entry[0].get<std::string>(), 1, entry[1].get<float>());
  }
  for (const Json& token : json["added_tokens"]) {
    const auto id = static_cast<size_t>(*of_json.find_token(token["content"].get<std::string>()));
    while (v.tokens.size() <= id) v.add("[PAD" + std::to_string(v.tokens.size()) + "]", 5, -10'000);
    v.tokens[id] = token["content"].get<std::string>();
    v.types[id] = token["special"].get<bool>() ? 3 : 4;
    if (v.tokens[id] == "<unk>") v.types[id] = 2;
  }
  v.ids = {{"unknown_token_id", 0}, {"eos_token_id", 0}};
  v.flags = {{"add_space_prefix", true}, {"remove_extra_whitespaces", true}, {"add_eos_token", false}};
  return v;
}

// Converters pad the list to the number of embedding rows. Similar tokens that are not padding stay tokens.
TEST(LoadPieces, TrailingPaddingIsNotInTheVocabulary) {
  PieceVocabulary vocabulary;
  const size_t n_tokens = vocabulary.tokens.size();
  for (size_t i = n_tokens; i < n_tokens + 3; ++i) vocabulary.add("[PAD" + std::to_string(i) + "]", 5, 0);
  EXPECT_EQ((*vocabulary.load())->vocab_size(), n_tokens);
  vocabulary.add("<unused>", 5, 0);
  EXPECT_EQ((*vocabulary.load())->vocab_size(), n_tokens + 4) << "it is no longer at the end";
  vocabulary.add("[PAD7]", 5, 0);
  EXPECT_EQ((*vocabulary.load())->vocab_size(), n_tokens + 5) << "it is named after another id";
}

TEST(LoadPieces, GgufUnigramMatchesTokenizerJson) {
  Json json = *parse_json(read_whole_file(golden_dir() + "/tokenizer/unigram.json"), "unigram");
  for (Json& entry : json["model"]["vocab"]) entry[1] = entry[1].get<float>();  // GGUF's scores are floats
  Json added = Json::array();
  for (const Json& token : json["added_tokens"]) {
    const bool flagged = token["lstrip"] == true || token["rstrip"] == true || token["single_word"] == true ||
                         token["normalized"] == true;
    // SentencePiece's own symbols are model tokens too.
    const bool is_piece = std::any_of(json["model"]["vocab"].begin(), json["model"]["vocab"].end(),
                                      [&](const Json& entry) { return entry[0] == token["content"]; });
    if (!flagged && (is_piece || token["special"] == true)) added.push_back(token);
  }
  json["added_tokens"] = added;
  Json& steps = json["normalizer"]["normalizers"];
  steps.insert(steps.begin() + 1, Json{{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  json["pre_tokenizer"] =
      Json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
  json["decoder"] = json["pre_tokenizer"];
  json["post_processor"] = nullptr;
  const auto of_json = load_tokenizer(MemoryModelFile({{"tokenizer.json", json.dump()}}));
  ASSERT_TRUE(of_json.ok()) << of_json.status().message();
  PieceVocabulary v = unigram_vocabulary(json, **of_json);
  v.charsmap = base64_bytes(steps[0]["precompiled_charsmap"].get<std::string>());
  const auto of_gguf = v.load();
  ASSERT_TRUE(of_gguf.ok()) << of_gguf.status().message();
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = random_text(random, i % 2 == 0);
    const auto origin = i % 3 == 0 ? TextOrigin::kInput : TextOrigin::kTemplate;
    const Tokens ids = (*of_gguf)->encode(text, origin);
    ASSERT_EQ(ids, (*of_json)->encode(text, origin)) << testing::PrintToString(text);
    ASSERT_EQ((*of_gguf)->decode(ids), (*of_json)->decode(ids)) << testing::PrintToString(text);
  }
}

TEST(LoadPieces, GgufKeysDecideHowUnigramTreatsSpaces) {
  PieceVocabulary v;
  v.model = "t5";
  v.ids = {{"unknown_token_id", 0}, {"eos_token_id", 2}};
  v.flags = {{"add_space_prefix", true}, {"remove_extra_whitespaces", true}};
  const auto few = v.load();
  ASSERT_TRUE(few.ok()) << few.status().message();
  v.flags = {{"add_space_prefix", true}};
  const auto all_of_them = v.load();
  v.flags = {};
  const auto as_it_is = v.load();
  const TokenId mark = v.id("\u2581"), h = v.id("\u2581h"), e = v.id("e");
  EXPECT_EQ(all(**few, "  h  e "), (Tokens{h, mark, e}));
  EXPECT_EQ(all(**all_of_them, "h  e "), (Tokens{h, mark, mark, e, mark}));
  EXPECT_EQ(all(**as_it_is, "e h"), (Tokens{e, h}));
  EXPECT_EQ(all(**few, "e", true), (Tokens{mark, e, 2}));
  EXPECT_EQ((*few)->decode(Tokens{h, mark, e}), "h e");
  EXPECT_EQ(all(**few, "\u00E9"), (Tokens{mark, v.id("<0xC3>"), v.id("<0xA9>")}));
}

// A table with offsets outside itself replaces nothing, and nothing is read beyond it.
TEST(LoadPieceJson, DamagedCharsmapNeverCrashes) {
  const Json json = *parse_json(read_whole_file(golden_dir() + "/tokenizer/unigram.json"), "unigram");
  const std::string table = json["normalizer"]["normalizers"][0]["precompiled_charsmap"];
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 300; ++i) {
    Json mangled = json;
    std::string bytes = table;
    for (uint64_t n = 1 + random() % 8; n > 0; --n) bytes[random() % (bytes.size() - 4)] = "AZaz09+/"[random() % 8];
    mangled["normalizer"]["normalizers"][0]["precompiled_charsmap"] = bytes;
    const auto tokenizer = load_tokenizer(MemoryModelFile({{"tokenizer.json", mangled.dump()}}));
    if (tokenizer.ok()) (*tokenizer)->encode(random_text(random, true), TextOrigin::kTemplate, true);
  }
}

}  // namespace
}  // namespace ibid
