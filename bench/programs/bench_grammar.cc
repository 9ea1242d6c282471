// Grammars on a model's vocabulary: the cost of compiling a grammar, and of computing the masks of allowed tokens.
//   bench_grammar MODEL      MODEL: anything with a tokenizer, also a directory with only tokenizer.json
// A given answer is tokenised step by step, each time with its longest matching token, which the mask must allow. Times
// are of one thread, in microseconds. A first answer fills the caches of masks, and a second one uses them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar_constraint.h"
#include "runtime/generate/constraint_cache.h"
#include "sampling/constraint.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

template <typename T>
T take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "bench_grammar: %s\n", result.status().message().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

double microseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

struct Case {
  std::string name;
  std::function<Result<Grammar>()> compile;
  std::string answer;
};

std::string wide_schema(size_t n) {
  std::string properties, required;
  for (size_t i = 0; i < n; ++i) {
    const std::string name = "\"property_" + std::to_string(i) + "\"";
    properties += (i ? "," : "") + name + R"(:{"type":)" +
                  (i % 3 == 0   ? R"("string","maxLength":200})"
                   : i % 3 == 1 ? R"("integer","minimum":0})"
                                : R"("array","items":{"type":"string"}})");
    required += (i ? "," : "") + name;
  }
  return R"({"type":"object","additionalProperties":false,"properties":{)" + properties + R"(},"required":[)" +
         required + "]}";
}

std::string wide_answer(size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    out += (i ? ", \"property_" : "{\"property_") + std::to_string(i) + "\": " +
           (i % 3 == 0   ? "\"the answer to question number " + std::to_string(i) + "\""
            : i % 3 == 1 ? "12345"
                         : R"(["one", "and another one"])");
  }
  return out + "}";
}

constexpr const char* kPersons =
    R"({"type":"array","items":{"type":"object","additionalProperties":false,"required":["name","mail","born","tags"],
        "properties":{"name":{"type":"string","minLength":1,"maxLength":80},"mail":{"type":"string","format":"email"},
        "born":{"type":"string","format":"date"},"tags":{"type":"array","items":{"enum":["new","old","blue"]}},
        "notes":{"anyOf":[{"type":"string"},{"type":"null"}]}}}})";
constexpr const char* kPersonsAnswer =
    R"([{"name": "Ada Lovelace", "mail": "ada@example.org", "born": "1815-12-10", "tags": ["old", "blue"],)"
    R"( "notes": "The first to write a program for a machine that was never built."}, {"name": "Grace Hopper",)"
    R"( "mail": "grace@example.org", "born": "1906-12-09", "tags": [], "notes": null}])";

void report(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (const double time : times) sum += time;
  std::printf("  %-14s %5zu masks  median %8.1f  mean %8.1f  p99 %8.1f  largest %8.1f us\n", what, times.size(),
              times[times.size() / 2], sum / static_cast<double>(times.size()), times[times.size() * 99 / 100],
              times.back());
}

void run(const Case& one, const std::shared_ptr<const TokenTexts>& vocabulary) {
  std::vector<double> compile_times;
  for (int i = 0; i < 5; ++i) compile_times.push_back(microseconds([&] { take(one.compile()); }));
  const Grammar grammar = take(one.compile());
  std::printf("%s: compiled in %.2f ms (best of 5), %zu states\n", one.name.c_str(),
              *std::min_element(compile_times.begin(), compile_times.end()) * 1e-3,
              grammar.parts().automaton.n_states());
  const auto prototype = make_constraint(grammar, vocabulary);
  TokenMask mask(vocabulary->size());
  for (const char* which : {"first answer", "second answer"}) {
    const auto constraint = prototype->clone();
    std::vector<double> masks;
    double pushes = 0;
    for (std::string_view rest = one.answer; !rest.empty();) {
      mask.clear();
      masks.push_back(microseconds([&] { constraint->allowed(mask); }));
      const TokenId id = vocabulary->longest_prefix(rest);
      if (!mask.has(id)) {
        std::printf("  not allowed: %s\n", std::string(rest.substr(0, 40)).c_str());
        std::exit(1);
      }
      pushes += microseconds([&] { constraint->push(id); });
      rest.remove_prefix(vocabulary->bytes(id).size());
    }
    report(which, masks);
    std::printf("  %-14s push %.2f us a token\n", "", pushes / static_cast<double>(masks.size()));
  }
  const auto counters = static_cast<const GrammarConstraint&>(*prototype).matcher()->counters();
  const double megabytes = static_cast<double>(counters.n_bytes) * 1e-6;
  std::printf("  kept: %.1f MB, %zu configurations\n", megabytes, counters.n_configs);
}

// Measures the cost of NextTokens in addition to the mask: writing the logits of the allowed tokens.
void run_restrict(const Grammar& grammar, const std::shared_ptr<const TokenTexts>& vocabulary) {
  const auto prototype = make_constraint(grammar, vocabulary);
  NextTokens next(prototype.get(), {}, 0);
  const std::vector<float> logits(vocabulary->size(), 1.0f);
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(microseconds([&] { (void)next.restrict(logits).ok(); }));
  report("restrict", times);
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  using namespace ibid;
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_grammar MODEL\n");
    return 2;
  }
  const std::unique_ptr<ModelFile> file = take(open_model_file(argv[1], {.vocabulary_only = true}));
  const std::unique_ptr<Tokenizer> tokenizer = take(load_tokenizer(*file));
  std::shared_ptr<const TokenTexts> vocabulary;
  const double trie = microseconds([&] { vocabulary = make_vocabulary(*tokenizer); });
  std::printf("vocabulary: %zu tokens, trie made in %.1f ms, %.1f MB\n", vocabulary->size(), trie * 1e-3,
              static_cast<double>(vocabulary->n_bytes()) * 1e-6);
  const std::vector<Case> cases = {
      {"any JSON", [] { return compile_any_json(AnyJson::kValue); }, kPersonsAnswer},
      {"persons", [] { return compile_json_schema(kPersons); }, kPersonsAnswer},
      {"40 properties", [] { return compile_json_schema(wide_schema(40)); }, wide_answer(40)},
      {"500 properties", [] { return compile_json_schema(wide_schema(500)); }, wide_answer(500)},
      {"choices",
       [] {
         return compile_choices({"yes", "no", "not sure"});
       },
       "not sure"},
      {"regex", [] { return compile_regex("[A-Z][a-z]+( [a-z]+){3,200}\\."); },
       "The river runs past the mill and down to the sea."},
  };
  for (const Case& one : cases) run(one, vocabulary);
  run_restrict(take(compile_json_schema(R"({"type":"string"})")), vocabulary);
  return 0;
}
