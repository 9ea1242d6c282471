// Loading a tokenizer from tokenizer.json and the files beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "tests/tokenizer/memory_model_file.h"
#include "tokenizer/tokenizer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

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
        {"NoModel", ErrorCode::kMissingKey, "the key \"model\" is missing", [](Json& j) { j.erase("model"); }},
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

TEST(LoadJson, SplitPatternEqualToAStepNameIsReadAsAPattern) {
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

TEST(LoadJson, LoadingWithAnyValueReplacedNeverCrashes) {
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
