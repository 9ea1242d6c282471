// Rates of one model without any conversation around it: prefill by length, decode and 44-token turns by depth. One JSON
// line per figure, with the fields and the work of the scripts that time other engines, so that lines can be
// put side by side.
//
//   bench_model [MODEL] [--threads N] [--kv f32|f16|int8] [--numerics exact|fast] [--rounds N]
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "apps/inspect/feed.h"
#include "apps/model_arguments.h"
#include "apps/models/model_catalog.h"

namespace ibid {
namespace {

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void fail(const Status& status) {
  std::fprintf(stderr, "bench_model: %s\n", status.message().c_str());
  std::exit(1);
}

// Ids spread over the vocabulary, so that no engine profits from a repeated token.
Tokens spread_ids(size_t n) {
  Tokens ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<TokenId>(1000 + i * 7919 % 30000);
  return ids;
}

class Bench {
 public:
  Bench(LanguageModel& model, const ModelArguments& arguments, size_t rounds)
      : model_(model),
        arguments_(arguments),
        rounds_(rounds),
        pool_(model.kv_layout(), size_t{128} * model.kv_layout().page_bytes()),
        entry_(pool_) {}

  void prefill() {
    for (const size_t n : {8, 16, 32, 63, 64, 128, 512}) {
      const Tokens ids = spread_ids(n);
      std::vector<double> rates;
      for (size_t round = 0; round <= rounds_; ++round) {
        entry_.slice_to_length(0);
        rates.push_back(static_cast<double>(n) / seconds([&] { feed(ids); }));
      }
      rates.erase(rates.begin());  // warm-up
      emit({{"what", "prefill"}, {"n", n}, {"tps", median(rates)}});
    }
    entry_.slice_to_length(0);
  }

  void at_depths() {
    const Tokens history = spread_ids(4096);
    const Tokens turn = spread_ids(44);
    for (const size_t depth : {0, 1024, 4096}) {
      if (depth > entry_.length()) feed(TokenSpan(history).subspan(entry_.length(), depth - entry_.length()));
      std::vector<double> rates;
      std::vector<double> times;
      for (size_t round = 0; round <= rounds_; ++round) {
        entry_.slice_to_length(depth);
        feed(Tokens{static_cast<TokenId>(1234 + round)});
        rates.push_back(48 / seconds([&] {
          for (TokenId i = 0; i < 48; ++i) feed(Tokens{2000 + 97 * i});
        }));
        entry_.slice_to_length(depth);
        times.push_back(1e3 * seconds([&] { feed(turn); }));
      }
      rates.erase(rates.begin());
      times.erase(times.begin());
      emit({{"what", "decode"}, {"depth", depth}, {"tps", median(rates)}});
      emit({{"what", "turn"}, {"history", depth}, {"n", 44}, {"ttft_ms", median(times)}});
      entry_.slice_to_length(depth);
    }
  }

 private:
  // Feeds ids up to the next token's logits.
  void feed(TokenSpan ids) {
    while (!ids.empty()) {
      const size_t n = std::min(ids.size(), model_.max_chunk());
      const SequenceChunk chunk{&entry_, ids.first(n), n == ids.size() ? WantLogits::kLast : WantLogits::kNone};
      if (const Status status = model_.forward(std::span(&chunk, 1), {}, logits_); !status.ok()) fail(status);
      ids = ids.subspan(n);
    }
  }

  void emit(Json figure) {
    Json line = {{"engine", "ibid"}, {"threads", arguments_.n_threads}, {"kv", arguments_.kv},
                 {"numerics", arguments_.numerics}};
    line.update(figure);
    std::puts(line.dump().c_str());
    std::fflush(stdout);
  }

  LanguageModel& model_;
  const ModelArguments& arguments_;
  const size_t rounds_;
  KvPagePool pool_;
  KvCacheEntry entry_;
  Logits logits_;
};

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  using namespace ibid;
  CLI::App app("rates of one model");
  ModelArguments arguments;
  size_t rounds = 5;
  arguments.n_threads = 2;
  arguments.add_model(app, false);
  arguments.add_running(app);
  app.add_option("--rounds", rounds, "repetitions; the median counts")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  const Result<std::string> path = resolve_model(arguments.model);
  if (!path.ok()) fail(path.status());
  std::unique_ptr<LanguageModel> model;
  const double load_seconds = seconds([&] {
    Result<std::unique_ptr<LanguageModel>> loaded = load_for_feeding(*path, arguments.options());
    if (!loaded.ok()) fail(loaded.status());
    model = *std::move(loaded);
  });
  std::puts(Json{{"engine", "ibid"}, {"what", "load"}, {"ms", load_seconds * 1e3}}.dump().c_str());
  Bench bench(*model, arguments, rounds);
  bench.prefill();
  bench.at_depths();
  return 0;
}
