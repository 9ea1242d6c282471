// Answers under a schema are valid for any logits: random answers at a high temperature, with a real tokenizer, are
// JSON that another implementation of JSON Schema (python-jsonschema) accepts.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "base/json_limits.h"
#include "runtime/generate/constraint_cache.h"
#include "sampling/constraint.h"
#include "sampling/sampler.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

constexpr size_t kAnswersOfEach = 260;
constexpr size_t kMostTokens = 400;

// Schemas of strings, numbers, arrays, objects, and combinations.
constexpr std::array kSchemas = {
    R"({"type":"object"})",
    R"({"type":["array","null"],"maxItems":4})",
    R"({"type":"string","maxLength":30})",
    R"({"type":"string","minLength":3,"maxLength":9})",
    R"({"type":"string","pattern":"^[a-z]{2,5}(-[0-9]+)?$"})",
    R"({"type":"string","pattern":"b[^\"]","maxLength":12})",
    R"({"type":"string","pattern":"^(\\\\|\"|\n|é)+$","minLength":2})",
    R"({"type":"string","format":"date"})",
    R"({"type":"string","format":"date-time"})",
    R"({"type":"string","format":"time"})",
    R"({"type":"string","format":"ipv4"})",
    R"({"type":"string","format":"ipv6"})",
    R"({"type":"string","format":"email"})",
    R"({"type":"string","format":"email","maxLength":20})",
    R"({"type":"string","format":"hostname"})",
    R"({"type":"string","format":"uuid"})",
    R"({"type":"string","format":"uri"})",
    R"({"type":"string","format":"duration"})",
    R"({"type":"string","format":"json-pointer"})",
    R"({"type":"number"})",
    R"({"type":"integer"})",
    R"({"type":"integer","minimum":-17,"maximum":2345})",
    R"({"type":"integer","minimum":0})",
    R"({"type":"number","exclusiveMinimum":0.25,"maximum":1000})",
    R"({"type":"number","multipleOf":0.01,"minimum":-5})",
    R"({"type":"integer","multipleOf":7,"minimum":100})",
    R"({"enum":["a","it's","\"","\u00e9\n",12,-0.5,null,true,["x",1],{"k":"v"}]})",
    R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":5})",
    R"({"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":{"type":"null"},"minItems":1})",
    R"({"type":"array","items":{"enum":["red","green","blue"]},"uniqueItems":true})",
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
        "tags":{"type":"array","items":{"type":"string","maxLength":8}}},"required":["name","age"],
        "additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"boolean"},"ab":{"type":"null"},"\"":{"type":"integer"}}})",
    R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"additionalProperties":false,
        "minProperties":1,"maxProperties":2})",
    R"({"type":"object","patternProperties":{"^n_":{"type":"integer"},"^s_":{"type":"string"}},
        "additionalProperties":false})",
    R"({"type":"object","propertyNames":{"pattern":"^[a-f]{1,3}$"},"additionalProperties":{"type":"boolean"}})",
    R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"},"maxItems":3},{"enum":["x","y"]}]})",
    R"({"oneOf":[{"properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"],
                  "type":"object","additionalProperties":false},
                 {"properties":{"kind":{"const":"box"},"w":{"type":"integer"},"h":{"type":"integer"}},"type":"object",
                  "required":["kind","w","h"],"additionalProperties":false}]})",
    R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"value":{"type":"integer"},
        "kids":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}},"required":["value"],
        "additionalProperties":false}}})",
    R"({"allOf":[{"type":"object","properties":{"a":{"minimum":5}},"required":["a"]},
                 {"properties":{"a":{"type":"integer","maximum":60},"b":{"type":"string","maxLength":4}}}]})",
    R"({"type":"object","properties":{"when":{"type":"string","format":"date"},"note":{"type":["string","null"]},
        "scores":{"type":"array","items":{"type":"number","minimum":0,"maximum":1},"minItems":1,"maxItems":4}},
        "required":["when","note","scores"]})",
};

// Random logits that favour the end of texts more the longer an answer is.
class RandomLogits {
 public:
  RandomLogits(const Tokenizer& tokenizer, uint64_t seed) : random_(seed), logits_(tokenizer.vocab_size()) {
    for (size_t i = 0; i < logits_.size(); ++i) {
      const std::string_view bytes = tokenizer.token_bytes(static_cast<TokenId>(i));
      const bool ends = bytes.size() == 1 && std::string_view("\"}]@/").find(bytes[0]) != std::string_view::npos;
      if (ends) endings_.push_back(i);
    }
  }
  std::span<const float> next(size_t n_so_far, TokenId stop) {
    for (float& logit : logits_) logit = static_cast<float>(random_() % 4096) / 512.0f;
    const float push = 2.0f + 0.1f * static_cast<float>(n_so_far);
    for (const size_t i : endings_) logits_[i] += push;
    logits_[static_cast<size_t>(stop)] += push;
    return logits_;
  }

 private:
  std::minstd_rand random_;
  std::vector<float> logits_;
  std::vector<size_t> endings_;
};

struct SampledAnswer {
  std::string text;
  bool finished = false;
};

SampledAnswer sample(const TokenConstraint& constraint, const Tokenizer& tokenizer, TokenId stop, uint64_t seed) {
  NextTokens next(&constraint, {stop}, 0);
  Sampler sampler = *Sampler::create({.temperature = 1.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed});
  RandomLogits logits(tokenizer, seed + 1);
  SampledAnswer answer;
  for (size_t n = 0; n < kMostTokens; ++n) {
    const auto restricted = next.restrict(logits.next(n, stop));
    EXPECT_TRUE(restricted.ok()) << restricted.status().to_string() << " after " << answer.text;
    if (!restricted.ok()) return answer;
    const TokenId id = *sampler.sample(*restricted);
    if (id == stop) {
      answer.finished = true;
      return answer;
    }
    answer.text += n == 0 ? tokenizer.first_token_bytes(id) : tokenizer.token_bytes(id);
    next.push(id);
  }
  return answer;
}

TEST(SampledAnswersTest, EveryFinishedAnswerSatisfiesItsSchema) {
  const auto tokenizer = load_golden_tokenizer("smollm");
  const TokenId stop = static_cast<TokenId>(tokenizer->vocab_size() - 1);
  ConstraintCache cache(*tokenizer);
  TempDir dir;
  const std::string path = dir.path() + "/cases.jsonl";
  std::ofstream cases(path);
  size_t n_finished = 0, n_cut = 0;
  for (size_t s = 0; s < kSchemas.size(); ++s) {
    SCOPED_TRACE(kSchemas[s]);
    const Json schema = *parse_json(kSchemas[s], "schema");
    const auto constraint = cache.make(ConstraintKind::kJsonSchema, kSchemas[s]);
    ASSERT_TRUE(constraint.ok()) << constraint.status().to_string();
    cases << json_to_string(Json::array({"schema", schema})) << "\n";
    size_t n_here = 0;
    for (size_t i = 0; i < kAnswersOfEach; ++i) {
      const SampledAnswer answer = sample(**constraint, *tokenizer, stop, 1000 * s + i);
      ++(answer.finished ? n_finished : n_cut);
      if (!answer.finished) continue;
      ++n_here;
      const Result<Json> parsed = parse_json(answer.text, "answer", {.max_depth = 500, .allow_duplicate_keys = true});
      ASSERT_TRUE(parsed.ok()) << parsed.status().to_string() << "\n" << answer.text;
      cases << json_to_string(Json::array({"answer", answer.text})) << "\n";
    }
    EXPECT_GT(n_here, kAnswersOfEach / 2);
  }
  cases.close();
  RecordProperty("finished", static_cast<int>(n_finished));
  RecordProperty("cut", static_cast<int>(n_cut));
  std::printf("%zu answers were finished, %zu cut at %zu tokens\n", n_finished, n_cut, kMostTokens);
  std::fflush(stdout);
  EXPECT_GE(n_finished, 10'000u);
  const std::string script = golden_dir() + "/../runtime/validate_answers.py";
  const int status = std::system(("python3 '" + script + "' '" + path + "'").c_str());
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    GTEST_SKIP() << "python3 with jsonschema is not installed: answers are compared with the grammar alone";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the answers printed above are not valid";
}

}  // namespace
}  // namespace ibid
