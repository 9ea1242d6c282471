// bench_second_turn: the second turn of a chat whose template drops the thinking of the first answer. Work and JSON
// lines are those of bench/rivals/second_turn_llama_cpp.py, which describes them.
//   bench_second_turn MODEL [--histories 4096,16384] [--rounds 3] [--threads N] [--kv f16]
// Checkpoints are at the same positions as in the engine (runtime/generate/checkpoint_positions.h). The second turn is
// measured in two ways:
//   kept     resumes at the end of the first prompt, as a session does
//   nothing  prefills the whole prompt again
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/json_limits.h"
#include "cache/pages/kv_cache_entry.h"
#include "model/load_model.h"
#include "runtime/generate/checkpoint_positions.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

constexpr size_t kThinking = 200, kReply = 100, kNew = 44;

// Returns the tokens that every engine gets (bench/rivals/time_llama_cpp.py).
Tokens history_ids(size_t n) {
  Tokens ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<TokenId>(1000 + i * 7919 % 30000);
  return ids;
}
Tokens reply_ids(size_t begin, size_t end) {
  Tokens ids;
  for (size_t i = begin; i < end; ++i) ids.push_back(static_cast<TokenId>(3000 + 97 * i));
  return ids;
}

class SecondTurn {
 public:
  SecondTurn(LanguageModel& model, size_t history)
      : model_(model),
        history_(history_ids(history)),
        pool_(model.kv_layout(), model.kv_layout().room_for(history + 1024)),
        entry_(pool_),
        share_(
            state_share(std::max<size_t>(model.kv_layout().state_bytes(), 1), history + 1024, pool_.budget_bytes())) {}

  struct Sample {
    size_t n_read = 0;
    double ms = 0;
  };
  Result<Sample> measure(bool goes_on) {
    entry_.slice_to_length(0);
    TRY(read(history_));
    for (const TokenId id : reply_ids(0, kThinking + kReply)) TRY(feed(Tokens{id}));
    Tokens prompt = history_;
    const Tokens reply = reply_ids(kThinking, kThinking + kReply);
    prompt.insert(prompt.end(), reply.begin(), reply.end());
    for (size_t i = 0; i < kNew; ++i) prompt.push_back(static_cast<TokenId>(5000 + 31 * i));

    const auto start = std::chrono::steady_clock::now();
    const size_t n_read = prompt.size() - entry_.slice_to_at_most(goes_on ? history_.size() : 0);
    TRY(read(prompt));
    return Sample{n_read, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()};
  }

 private:
  // Prefills a prompt up to the logits of its last token, with checkpoints on the way.
  Status read(const Tokens& prompt) {
    const CheckpointPositions borders(entry_.length(), prompt.size(), {}, share_);
    while (entry_.length() < prompt.size()) {
      const size_t begin = entry_.length();
      const size_t end = borders.next(begin, std::min(prompt.size(), begin + model_.max_chunk()));
      TRY(feed(TokenSpan(prompt).subspan(begin, end - begin)));
      borders.keep(entry_, end == prompt.size());
    }
    return {};
  }
  Status feed(TokenSpan ids) {
    const SequenceChunk chunk{&entry_, ids, WantLogits::kLast};
    return model_.forward(std::span(&chunk, 1), {}, logits_);
  }

  LanguageModel& model_;
  const Tokens history_;
  KvPagePool pool_;
  KvCacheEntry entry_;
  const StateShare share_;
  Logits logits_;
};

Status run(const ModelArguments& arguments, const std::vector<size_t>& histories, size_t rounds) {
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model));
  TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(path));
  TRY_ASSIGN(const std::unique_ptr<LanguageModel> model, load_language_model(*file, arguments.options()));
  for (const size_t history : histories) {
    SecondTurn turn(*model, history);
    for (size_t round = 0; round < rounds; ++round) {
      for (const bool goes_on : {true, false}) {
        TRY_ASSIGN(const SecondTurn::Sample sample, turn.measure(goes_on));
        const Json line = {{"engine", "ibid"},
                           {"model", path.substr(path.rfind('/') + 1)},
                           {"kv", arguments.kv},
                           {"what", "second turn"},
                           {"history", history},
                           {"way", goes_on ? "kept" : "nothing"},
                           {"n_read", sample.n_read},
                           {"ttft_ms", sample.ms},
                           {"state_bytes", model->kv_layout().state_bytes()}};
        std::puts(json_to_string(line).c_str());
        std::fflush(stdout);
      }
    }
  }
  return {};
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  CLI::App app("the second turn of a chat whose template drops the thinking of the first answer");
  ibid::ModelArguments arguments;
  std::vector<size_t> histories = {4096, 16384};
  size_t rounds = 3;
  arguments.add_model(app, true);
  arguments.add_running(app);
  app.add_option("--histories", histories, "ids of the first prompt")->delimiter(',');
  app.add_option("--rounds", rounds, "repetitions of each way")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const ibid::Status status = ibid::run(arguments, histories, rounds);
  if (!status.ok()) std::fprintf(stderr, "bench_second_turn: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
