// Constrained answers: their rate relative to unconstrained answers of the same length, and the times of their masks.
#include <time.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/lab/figure.h"
#include "bench/programs/session_claims.h"
#include "grammar/grammar.h"
#include "runtime/session/session_state.h"

namespace ibid {
namespace {

constexpr size_t kMostTokens = 128;  // of an answer
constexpr double kGoal = 0.9;

double cpu_us(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Forwards all calls to a constraint, and appends the processor time of each mask to a list. Clones append to the same
// list, so only one answer at a time may use it.
class TimedConstraint final : public TokenConstraint {
 public:
  TimedConstraint(std::unique_ptr<TokenConstraint> inner, std::shared_ptr<std::vector<double>> times_us)
      : inner_(std::move(inner)), times_us_(std::move(times_us)) {}

  void allowed(TokenMask& mask) const override {
    const double begin_us = cpu_us(CLOCK_THREAD_CPUTIME_ID);
    inner_->allowed(mask);
    times_us_->push_back(cpu_us(CLOCK_THREAD_CPUTIME_ID) - begin_us);
  }
  bool may_end() const override { return inner_->may_end(); }
  void push(TokenId id) override { inner_->push(id); }
  void propose(size_t n_most, Tokens& ids) const override { inner_->propose(n_most, ids); }
  Status status() const override { return inner_->status(); }
  std::unique_ptr<TokenConstraint> clone() const override {
    return std::make_unique<TimedConstraint>(inner_->clone(), times_us_);
  }

 private:
  std::unique_ptr<TokenConstraint> inner_;
  std::shared_ptr<std::vector<double>> times_us_;
};

struct GrammarCase {
  const char* name;
  const char* request;
  Grammar grammar;
};

constexpr const char* kPerson =
    R"({"type":"object","required":["name","mail","born","tags","address"],"properties":{
        "name":{"type":"string","minLength":1,"maxLength":80},"mail":{"type":"string","format":"email"},
        "born":{"type":"string","format":"date"},"height_cm":{"type":"integer","minimum":30,"maximum":280},
        "tags":{"type":"array","maxItems":4,"items":{"enum":["new","old","blue","green"]}},
        "address":{"type":"object","required":["street","city"],"properties":{
          "street":{"type":"string","maxLength":40},"city":{"type":"string","pattern":"^[A-Z][a-z ]{1,30}$"},
          "code":{"type":["string","null"],"pattern":"^[0-9]{5}$"}}},
        "notes":{"anyOf":[{"type":"string"},{"type":"null"}]}}})";

std::string list_of(const std::string& schema) {
  return R"({"type":"array","minItems":3,"maxItems":40,"items":)" + schema + "}";
}

// An object with n properties of eight kinds.
std::string wide_schema(size_t n) {
  const std::vector<std::string> kinds = {R"({"type":"string","maxLength":12})",
                                          R"({"type":"integer","minimum":0,"maximum":1000})",
                                          R"({"type":"array","maxItems":2,"items":{"type":"string","maxLength":20}})",
                                          R"({"type":"number"})",
                                          R"({"enum":["red","green","blue"]})",
                                          R"({"type":"string","format":"date-time"})",
                                          R"({"type":"boolean"})",
                                          R"({"anyOf":[{"type":"null"},{"type":"string","maxLength":30}]})"};
  std::string properties, required;
  for (size_t i = 0; i < n; ++i) {
    const std::string name = "\"property_" + std::to_string(i) + "\"";
    properties += (i > 0 ? "," : "") + name + ":" + kinds[i % kinds.size()];
    required += (i > 0 ? "," : "") + name;
  }
  return R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required + "]}";
}

Result<std::vector<GrammarCase>> grammar_cases() {
  const auto schema = [](const std::string& text) { return compile_json_schema(text, {.for_answers = true}); };
  std::vector<GrammarCase> cases;
  const auto add = [&](const char* name, const char* request, Result<Grammar> grammar) -> Status {
    TRY(grammar.status());
    cases.push_back({name, request, *std::move(grammar)});
    return {};
  };
  TRY(add("any JSON object", "Describe the planet Mars as a JSON object with many properties.",
          compile_any_json(AnyJson::kObject)));
  TRY(add("a person", "Invent a person, as JSON.", schema(kPerson)));
  TRY(add("a list of persons", "Invent some persons, as JSON.", schema(list_of(kPerson))));
  TRY(add("40 properties", "Fill in this form.", schema(wide_schema(40))));
  TRY(add("500 properties", "Fill in this form.", schema(wide_schema(500))));
  TRY(add("a list of short strings", "Name some rivers, as JSON.",
          schema(list_of(R"({"type":"string","minLength":3,"maxLength":12})"))));
  TRY(add("a sentence as a regular expression", "Describe a river.",
          compile_regex("[A-Z][a-z]+(,? [a-z]+){8,200}\\.")));
  TRY(add("a GBNF of arithmetic", "Write a long sum.",
          compile_gbnf("root ::= (expr \"=\" term \"\\n\"){8}\nexpr ::= term ([-+*/] term)*\n"
                       "term ::= ident | num | \"(\" expr \")\"\nident ::= [a-z] [a-z0-9_]*\nnum ::= [0-9]{1,9}\n")));
  return cases;
}

// The part of an answer after its prefill.
struct Decoding {
  size_t n_tokens = 0;
  double ms = 0;
  double cpu_us = 0;  // processor time of the whole turn, on all threads

  double cpu_us_per_token() const { return cpu_us / static_cast<double>(n_tokens); }
  double tps() const { return 1e3 * static_cast<double>(n_tokens) / ms; }
};

Result<Decoding> decode(const std::shared_ptr<Engine>& engine, const char* request, size_t n_least, size_t n_most,
                        std::shared_ptr<const TokenConstraint> constraint) {
  TRY_ASSIGN(ChatSession session, ChatSession::create(engine, {.repair_when_idle = false}));
  TurnOptions options = greedy_reply(n_most);
  options.min_tokens = n_least;
  options.constraint = std::move(constraint);
  const double begin_us = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
  TRY_ASSIGN(const Turn turn, session.send(request, options));
  return Decoding{turn.usage.n_decoded, turn.timings.decode_ms + turn.timings.sample_ms,
                  cpu_us(CLOCK_PROCESS_CPUTIME_ID) - begin_us};
}

std::string times_text(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (const double time : times) sum += time;
  return text_of("mean %.0f, p99 %.0f, longest %.0f us", sum / static_cast<double>(times.size()),
                 times[times.size() * 99 / 100], times.back());
}

// Each round has a new constraint, whose first answer finds no mask in a cache. The answers that are compared have the
// same number of tokens after the same prompt.
Status claims_of_case(const std::shared_ptr<Engine>& engine, const GrammarCase& one, size_t rounds,
                      const ClaimSink& sink) {
  std::vector<double> cold_ratios, warm_ratios, cold_extra_us, warm_extra_us, free_tps;
  const auto cold_us = std::make_shared<std::vector<double>>(), warm_us = std::make_shared<std::vector<double>>();
  size_t n_tokens = 0;
  for (size_t round = 0; round <= rounds; ++round) {
    const auto fresh = engine->state().constraints().make(one.grammar);
    const auto timed = [&](const auto& times) { return std::make_shared<TimedConstraint>(fresh->clone(), times); };
    TRY_ASSIGN(const Decoding cold, decode(engine, one.request, 0, kMostTokens, timed(cold_us)));
    TRY_ASSIGN(const Decoding free, decode(engine, one.request, cold.n_tokens, cold.n_tokens, nullptr));
    TRY_ASSIGN(const Decoding warm, decode(engine, one.request, 0, kMostTokens, timed(warm_us)));
    TRY_ASSIGN(const Decoding free_again, decode(engine, one.request, cold.n_tokens, cold.n_tokens, nullptr));
    if (round == 0) {  // a warm-up of everything but the masks
      cold_us->clear();
      warm_us->clear();
      continue;
    }
    n_tokens = cold.n_tokens;
    cold_ratios.push_back(cold.tps() / free.tps());
    warm_ratios.push_back(warm.tps() / free_again.tps());
    cold_extra_us.push_back(cold.cpu_us_per_token() - free.cpu_us_per_token());
    warm_extra_us.push_back(warm.cpu_us_per_token() - free_again.cpu_us_per_token());
    free_tps.push_back(free.tps());
  }
  const auto add = [&](const char* which, const std::vector<double>& ratios, const std::vector<double>& extra_us,
                       const std::vector<double>& times_us) {
    const Spread ratio = spread_of(ratios);
    Claim claim;
    claim.what = text_of("%s, %zu tokens, %s", one.name, n_tokens, which);
    claim.goal = text_of("%.0f %% of the rate without constraint", 100 * kGoal);
    claim.measured =
        text_of("%.1f %% (%.1f to %.1f); %.0f us of processor time more a token; masks: %s", 100 * ratio.median,
                100 * ratio.q1, 100 * ratio.q3, spread_of(extra_us).median, times_text(times_us).c_str());
    claim.holds = ratio.median >= kGoal;
    claim.values = {{"case", one.name},
                    {"masks", which},
                    {"tokens", n_tokens},
                    {"ratio", ratio.median},
                    {"q1", ratio.q1},
                    {"q3", ratio.q3},
                    {"extra_us", spread_of(extra_us).median},
                    {"free_tps", spread_of(free_tps).median}};
    sink(claim);
  };
  add("first answer", cold_ratios, cold_extra_us, *cold_us);
  add("second answer", warm_ratios, warm_extra_us, *warm_us);
  return {};
}

// Decodes with all of the constraints at once, or with none. Returns the sum of the answers.
Result<Decoding> decode_together(const std::shared_ptr<Engine>& engine, const std::vector<GrammarCase>& cases,
                                 const std::vector<size_t>& n_tokens,
                                 const std::vector<std::shared_ptr<const TokenConstraint>>& constraints,
                                 std::vector<size_t>* n_decoded) {
  std::vector<Result<Decoding>> answers(cases.size(), Decoding{});
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < cases.size(); ++i) {
      threads.emplace_back([&, i] {
        const size_t n_least = constraints.empty() ? n_tokens[i] : 0;
        answers[i] =
            decode(engine, cases[i].request, n_least, n_tokens[i], constraints.empty() ? nullptr : constraints[i]);
      });
    }
  }
  Decoding sum;
  for (const auto& answer : answers) {
    TRY(answer.status());
    sum.n_tokens += answer->n_tokens;
    sum.ms += answer->ms;
    if (n_decoded != nullptr) n_decoded->push_back(answer->n_tokens);
  }
  return sum;
}

Status claims_of_grammars_together(const std::shared_ptr<Engine>& engine, const std::vector<GrammarCase>& cases,
                                   size_t rounds, const ClaimSink& sink) {
  std::vector<double> cold_ratios, warm_ratios;
  for (size_t round = 0; round <= rounds; ++round) {
    std::vector<std::shared_ptr<const TokenConstraint>> constraints;
    for (const GrammarCase& one : cases) constraints.push_back(engine->state().constraints().make(one.grammar));
    std::vector<size_t> n_tokens;
    const std::vector<size_t> most(cases.size(), kMostTokens);
    TRY_ASSIGN(const Decoding cold, decode_together(engine, cases, most, constraints, &n_tokens));
    TRY_ASSIGN(const Decoding free, decode_together(engine, cases, n_tokens, {}, nullptr));
    TRY_ASSIGN(const Decoding warm, decode_together(engine, cases, most, constraints, nullptr));
    TRY_ASSIGN(const Decoding free_again, decode_together(engine, cases, n_tokens, {}, nullptr));
    if (round == 0) continue;
    cold_ratios.push_back(cold.tps() / free.tps());
    warm_ratios.push_back(warm.tps() / free_again.tps());
  }
  for (const bool is_cold : {true, false}) {
    const Spread ratio = spread_of(is_cold ? cold_ratios : warm_ratios);
    Claim claim;
    claim.what = text_of("%zu answers at once with different grammars, %s", cases.size(),
                         is_cold ? "first answers" : "second answers");
    claim.goal = text_of("%.0f %% of the rate without constraint", 100 * kGoal);
    claim.measured = text_of("%.1f %% (%.1f to %.1f)", 100 * ratio.median, 100 * ratio.q1, 100 * ratio.q3);
    claim.holds = ratio.median >= kGoal;
    claim.values = {{"case", "together"},       {"masks", is_cold ? "first answer" : "second answer"},
                    {"sessions", cases.size()}, {"ratio", ratio.median},
                    {"q1", ratio.q1},           {"q3", ratio.q3}};
    sink(claim);
  }
  return {};
}

}  // namespace

Status claims_of_constraints(const LoadEngine& load, size_t rounds, const ClaimSink& sink) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, load(""));
  TRY_ASSIGN(const std::vector<GrammarCase> cases, grammar_cases());
  engine->state().constraints().vocabulary();
  for (const GrammarCase& one : cases) TRY(claims_of_case(engine, one, rounds, sink));
  return claims_of_grammars_together(engine, cases, rounds, sink);
}

}  // namespace ibid
