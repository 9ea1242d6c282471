// For any text, the list reader gives the same as a parsed document.
#include "tokenizer/loading/json_document.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "tests/tokenizer/memory_model_file.h"
#include "tokenizer/loading/json_tokenizer.h"

namespace ibid {
namespace {

// The content of a document as text, or its error.
std::string said(const Result<JsonDocument>& document) {
  if (!document.ok()) return document.status().to_string();
  const Result<JsonTokenizer> read = read_json_tokenizer(MemoryModelFile({}), {}, *document);
  if (!read.ok()) return read.status().to_string();
  Json rest = document->root();
  rest["model"].erase("vocab");
  rest["model"].erase("merges");
  std::string out = json_to_string(rest);
  for (const VocabularyEntry& entry : read->vocabulary) {
    out += "\n" + std::string(entry.text) + " " + std::to_string(entry.id) + " " + std::to_string(entry.score);
  }
  for (const TextMerge& merge : read->merges) out += "\n" + std::string(merge.left) + "|" + std::string(merge.right);
  return out;
}

void expect_same(const std::string& text) {
  ASSERT_EQ(said(JsonDocument::parse(text, "tokenizer.json")), said(JsonDocument::parse_whole(text, "tokenizer.json")))
      << text.substr(0, 2'000);
}

constexpr const char* kFamilies[] = {"gpt2", "llama2", "unigram", "words_unknown"};

TEST(JsonDocument, VocabularyAndMergesAreReadFromTheFile) {
  for (const char* family : kFamilies) {
    const std::string text = read_whole_file(golden_dir() + "/tokenizer/" + family + ".json");
    const Result<JsonDocument> document = JsonDocument::parse(text, "tokenizer.json");
    ASSERT_TRUE(document.ok());
    EXPECT_TRUE(document->vocabulary()) << family;
    EXPECT_EQ(document->has_scores(), std::string_view(family) == "unigram");
    EXPECT_EQ(document->merges().has_value(), !document->has_scores());
    expect_same(text);
  }
}

TEST(JsonDocument, ListReaderMatchesParserOnAllNotations) {
  const auto file = [](const std::string& model) { return "{\"version\": \"1.0\", \"model\": " + model + "}\n"; };
  for (const std::string model : {
           R"({"type": "BPE", "vocab": {}, "merges": []})",
           R"({"vocab": { "a" : 0 ,"b":1, "ab":2 }, "merges": ["a b"]})",
           R"({"vocab": {"\u0061\n\"\\\/\b\f\r\t": 0, "\ud83d\ude00": 1}, "merges": [ [ "\u0061" , "b" ] ]})",
           R"({"vocab": {"\ud83d": 0}, "merges": []})",
           R"({"vocab": {"\ude00\ud83d": 0}, "merges": []})",
           R"({"vocab": {"a": 00}, "merges": []})",
           R"({"vocab": {"a": 1.0}, "merges": []})",
           R"({"vocab": {"a": 1e0}, "merges": []})",
           R"({"vocab": {"a": -1}, "merges": []})",
           R"({"vocab": {"a": 99999999999999999999}, "merges": []})",
           R"({"vocab": {"a": 4000000}, "merges": []})",
           R"({"vocab": {"a": "0"}, "merges": []})",
           R"({"vocab": {"a": 0,}, "merges": []})",
           R"({"vocab": {"a" 0}, "merges": []})",
           R"({"vocab": {"a": 0}, "vocab": {"b": 0}, "merges": []})",
           R"({"vocab": {"a": 0}, "merges": ["a"]})",
           R"({"vocab": {"a": 0}, "merges": ["a b c"]})",
           R"({"vocab": {"a": 0}, "merges": [["a", "b", "c"]]})",
           R"({"vocab": {"a": 0}, "merges": [["a"]]})",
           R"({"vocab": {"a": 0}, "merges": [1]})",
           R"({"vocab": {"a": 0}, "merges": null})",
           R"({"vocab": {"a": 0}})",
           R"({"vocab": null, "merges": []})",
           R"({"vocab": [["a", -1]], "merges": []})",
           R"({"type": "Unigram", "vocab": {"a": 0}, "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", -1.5], ["b", 0], ["c", -2e-3], ["d", 1E+2]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", .5]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", 01]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", 1.]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", -]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", inf]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", 1e999]], "unk_id": 0})",
           R"({"type": "Unigram", "vocab": [["a", 1], ["b"]], "unk_id": 0})",
           R"(["vocab", {"vocab": {"a": 0}}])",
       }) {
    expect_same(file(model));
  }
  expect_same("");
  expect_same("{");
  expect_same("\xEF\xBB\xBF" + file(R"({"vocab": {"a": 0}, "merges": []})"));
  expect_same(file(R"({"vocab": {"a": 0}, "merges": []})") + "x");
  expect_same(R"({"model": {"vocab": {"a": 0}, "merges": []}, "model": {"vocab": {"b": 0}, "merges": []}})");
  expect_same("{\"a\": \"" + std::string(1, 0) + "\", \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}");
  expect_same("{\"model\": {\"vocab\": {\"\xFF\": 0}, \"merges\": []}}");
  expect_same("{\"x\": \"\\\"model\\\": {\\\"vocab\\\": {\", \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}");
}

// Each text is a file with a few bytes changed, removed or duplicated.
TEST(JsonDocument, ListReaderMatchesParserOnDamagedFiles) {
  std::mt19937_64 random(test_seed());
  constexpr std::string_view kBytes = "{}[]\",:\\ 0123456789.eE-+unultrafse\n\x01\xC3\xFF";
  for (const char* family : kFamilies) {
    std::string sound = read_whole_file(golden_dir() + "/tokenizer/" + family + ".json");
    if (const size_t model = sound.find("\"model\""); model > 2'000) sound.erase(1, sound.find("\"model\"") - 1);
    for (int i = 0; i < 1'500; ++i) {
      std::string text = sound;
      for (uint64_t n = 1 + random() % 3; n > 0; --n) {
        const size_t at = random() % text.size();
        switch (random() % 4) {
          case 0: text[at] = kBytes[random() % kBytes.size()]; break;
          case 1: text.insert(at, 1, kBytes[random() % kBytes.size()]); break;
          case 2: text.erase(at, 1 + random() % 3); break;
          default: text.insert(at, text.substr(at, random() % 40)); break;
        }
      }
      const Result<JsonDocument> fast = JsonDocument::parse(text, "tokenizer.json");
      const Result<JsonDocument> whole = JsonDocument::parse_whole(text, "tokenizer.json");
      // The list reader does not detect a duplicate text of the vocabulary; TokenizerBuilder does.
      if (!whole.ok() && whole.status().code() == ErrorCode::kDuplicate) continue;
      ASSERT_EQ(said(fast), said(whole)) << family << " " << i;
    }
  }
}

TEST(JsonDocument, DuplicateVocabularyTextIsAWarning) {
  const std::string text = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "a": 2}, "merges": []},
                               "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
                               "decoder": {"type": "ByteLevel"}})";
  const MemoryModelFile file({{"tokenizer.json", text}});
  const auto tokenizer = load_tokenizer(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->warnings().size(), 1u);
  EXPECT_EQ((*tokenizer)->encode("ab", TextOrigin::kInput), (Tokens{0, 1}));
}

}  // namespace
}  // namespace ibid
