// Turns of a growing conversation, with the history reused and with the whole of it read again.
//
// Turn k stands at about 500 k tokens, of which 60 are new; replies are held at 440 tokens (an exchange before
// the first measured turn fills its 500). Both sides of a turn run one after the other in the same
// process: the session sends the message, and then the very same prompt is rendered, tokenised and read from
// nothing. Time is to the first sampled token.
//
//   bench_turns [MODEL] [Google Benchmark's options]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "apps/models/model_catalog.h"
#include "runtime/chat_session.h"

namespace ibid {
namespace {

constexpr size_t kTurns = 10;
constexpr size_t kConversations = 3;
constexpr size_t kNewTokens = 60;
constexpr size_t kReplyTokens = 440;
constexpr size_t kTemplateTokens = 12;  // around a message in ChatML

struct Measured {
  double warm_ms = 0;
  double cold_ms = 0;
  Turn turn;
};

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const Status& status) {
  std::fprintf(stderr, "bench_turns: %s\n", status.message().c_str());
  std::exit(1);
}

template <typename T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.status());
  return *std::move(result);
}

// A message that costs kNewTokens, the template's around it included: the words differ from turn to turn.
std::string message_of_turn(const Tokenizer& tokenizer, size_t conversation, size_t turn) {
  constexpr const char* kWords[] = {"river", "lantern", "copper", "window", "harvest", "signal", "winter", "market",
                                    "garden", "engine",  "letter", "bridge", "silver",  "forest", "island", "thread"};
  std::string text = "Please go on, and bring in these words:";
  for (size_t i = 0; tokenizer.encode(text, TextOrigin::kInput).size() < kNewTokens - kTemplateTokens; ++i) {
    text += std::string(" ") + kWords[(i * 7 + turn * 5 + conversation * 3) % std::size(kWords)];
  }
  return text + ".";
}

// The whole prompt of `messages` from nothing: render, tokenise, read, and choose a token.
double cold_ttft_ms(Engine& engine, const Json& messages) {
  const double begin = now_ms();
  TemplateVariables variables;
  variables.values = engine.chat_template()->default_variables();
  variables.values["add_generation_prompt"] = true;
  const MarkedText text = take(engine.chat_template()->render(messages, variables));
  IncrementalEncoder encoder(engine.tokenizer());
  Tokens prompt;
  for (const TextRun& run : text) {
    const IncrementalEncoder::Delta delta = encoder.append(run.text, run.origin);
    prompt.resize(delta.keep);
    prompt.insert(prompt.end(), delta.tokens.begin(), delta.tokens.end());
  }
  KvCacheEntry entry(engine.pool());
  Logits logits;
  for (size_t done = 0; done < prompt.size();) {
    const size_t n = std::min(engine.model().max_chunk(), prompt.size() - done);
    const bool last = done + n == prompt.size();
    const SequenceChunk chunk{&entry, TokenSpan(prompt).subspan(done, n),
                              last ? WantLogits::kLast : WantLogits::kNone};
    if (const Status status = engine.queue().forward(std::span(&chunk, 1), {}, logits); !status.ok()) fail(status);
    done += n;
  }
  Sampler sampler = take(Sampler::create({.temperature = 0}));
  benchmark::DoNotOptimize(take(sampler.sample(logits.row(0))));
  return now_ms() - begin;
}

std::vector<Measured> converse(const std::shared_ptr<Engine>& engine, size_t conversation) {
  ChatSession session = take(ChatSession::create(engine));
  TurnOptions options;
  options.sampler.seed = conversation + 1;
  options.min_tokens = options.max_tokens = kReplyTokens;
  take(session.send(message_of_turn(engine->tokenizer(), conversation, kTurns), options));
  std::vector<Measured> turns(kTurns);
  for (size_t k = 0; k < kTurns; ++k) {
    const std::string message = message_of_turn(engine->tokenizer(), conversation, k);
    Json prompt = session.messages();
    prompt.push_back({{"role", "user"}, {"content", message}});
    turns[k].turn = take(session.send(message, options));
    turns[k].warm_ms = turns[k].turn.timings.ttft_ms;
    turns[k].cold_ms = cold_ttft_ms(*engine, prompt);
  }
  return turns;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One turn over all conversations.
struct Row {
  std::vector<Measured> runs;
  double warm_ms() const {
    std::vector<double> times;
    for (const Measured& run : runs) times.push_back(run.warm_ms);
    return median(times);
  }
  double cold_ms() const {
    std::vector<double> times;
    for (const Measured& run : runs) times.push_back(run.cold_ms);
    return median(times);
  }
};

void print_table(const std::vector<Row>& rows) {
  std::printf("\nturn  prompt  cached  prefilled   reuse ms   again ms   ratio | rendered  compared  tokenized  "
              "ids compared  KV copied  pages\n");
  for (size_t k = 0; k < rows.size(); ++k) {
    const Turn& turn = rows[k].runs[0].turn;
    const WorkCounters& w = turn.work;
    std::printf("%4zu  %6zu  %6zu  %9zu  %9.1f  %9.1f  %6.1f | %6zu B  %6zu B  %7zu B  %12zu  %7zu B  %5zu\n", k + 1,
                turn.usage.n_prompt, turn.usage.n_cached, turn.usage.n_prefilled, rows[k].warm_ms(), rows[k].cold_ms(),
                rows[k].cold_ms() / rows[k].warm_ms(), w.bytes_rendered, w.bytes_compared, w.bytes_tokenized,
                w.tokens_compared, w.kv_bytes_copied, w.pages_touched);
  }
}

// The measured times as Google Benchmark reports them, for its formats and tools.
void report(benchmark::State& state, const Row& row, bool reuse) {
  const Turn& turn = row.runs[0].turn;
  size_t i = 0;
  for (auto _ : state) {
    const Measured& run = row.runs[i++ % row.runs.size()];
    state.SetIterationTime((reuse ? run.warm_ms : run.cold_ms) / 1e3);
  }
  state.counters["n_prompt"] = static_cast<double>(turn.usage.n_prompt);
  state.counters["n_prefilled"] = static_cast<double>(reuse ? turn.usage.n_prefilled : turn.usage.n_prompt);
  if (!reuse) return;
  state.counters["bytes_rendered"] = static_cast<double>(turn.work.bytes_rendered);
  state.counters["bytes_tokenized"] = static_cast<double>(turn.work.bytes_tokenized);
  state.counters["bytes_compared"] = static_cast<double>(turn.work.bytes_compared);
  state.counters["kv_bytes_copied"] = static_cast<double>(turn.work.kv_bytes_copied);
  state.counters["pages_touched"] = static_cast<double>(turn.work.pages_touched);
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  using namespace ibid;
  benchmark::Initialize(&argc, argv);
  const std::string path = take(resolve_model(argc > 1 ? argv[1] : ""));
  const auto engine = take(Engine::load(path));
  std::vector<Row> rows(kTurns);
  for (size_t c = 0; c < kConversations; ++c) {
    const std::vector<Measured> turns = converse(engine, c);
    for (size_t k = 0; k < kTurns; ++k) rows[k].runs.push_back(turns[k]);
  }
  for (size_t k = 0; k < kTurns; ++k) {
    for (const bool reuse : {true, false}) {
      const std::string name = "Turn/" + std::to_string(k + 1) + (reuse ? "/reuse" : "/again");
      benchmark::RegisterBenchmark(name.c_str(), [&rows, k, reuse](benchmark::State& state) {
        report(state, rows[k], reuse);
      })->UseManualTime()->Iterations(kConversations)->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  print_table(rows);
  benchmark::Shutdown();
  return 0;
}
