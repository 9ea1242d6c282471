// bench_memory: memory of the keys, values and recurrent states of one long sequence, as counted by the pool.
//   bench_memory MODEL [--positions 32768] [--ways least,engine] [--kv f16] [--threads N]
// Stores keys, values and states for every position, in passes as long as the model's, with constant
// numbers instead of computed ones. Two ways, with a JSON line for each:
//   least   the pool has the minimum budget: all positions of full-attention layers, the windows of the others,
//           and the states of the passes; all other data is evicted
//   engine  the pool has the budget of an engine with that context, and the store keeps the states that the
//           engine keeps of a prompt (runtime/generate/checkpoint_positions.h)
// `all_bytes` is computed: all positions in all layers, as if no layer had a window or a state.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/json_limits.h"
#include "base/parallel.h"
#include "cache/store/lru_kv_cache_store.h"
#include "kernels/ops/dispatch.h"
#include "model/load_model.h"
#include "runtime/engine/engine_state.h"
#include "runtime/generate/checkpoint_positions.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

// Returns the tokens that every engine gets (bench/rivals/time_llama_cpp.py).
Tokens spread_ids(size_t n) {
  Tokens ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<TokenId>(1000 + i * 7919 % 30000);
  return ids;
}

class LongSequence {
 public:
  LongSequence(LanguageModel& model, size_t positions, size_t budget_bytes)
      : model_(model),
        positions_(positions),
        ids_(spread_ids(positions)),
        pool_(model.kv_layout(), budget_bytes),
        store_(pool_),
        entry_(pool_) {}

  // Appends all positions. Passes end at checkpoints.
  Status fill(bool keeps_states) {
    const size_t state_bytes = model_.kv_layout().state_bytes();
    CheckpointPositions borders;
    if (keeps_states && state_bytes != 0) {
      borders = CheckpointPositions(0, positions_, {}, state_share(state_bytes, positions_, pool_.budget_bytes()));
    }
    while (entry_.length() < positions_) {
      const size_t begin = entry_.length();
      const size_t end = borders.next(begin, std::min(positions_, begin + model_.max_chunk()));
      TRY(append(end - begin));
      borders.keep(entry_, end == positions_);
    }
    return keeps_states ? store_.insert("", entry_) : Status();
  }

  Json figures() const {
    const KvLayout& layout = model_.kv_layout();
    const size_t page_bytes = layout.page_bytes() / std::max<size_t>(layout.n_layers(), 1);  // bytes of one layer
    return {{"positions", entry_.length()},
            {"resumable", entry_.resumable_length(entry_.length())},
            {"budget_bytes", pool_.budget_bytes()},
            {"peak_bytes", pool_.peak_bytes()},
            {"bytes", pool_.bytes_in_use()},
            {"state_bytes", pool_.state_bytes_in_use()},
            {"stored_states", store_.n_states()},
            {"stored_state_bytes", store_.state_bytes()},
            {"one_state_bytes", layout.state_bytes()},
            {"all_bytes", KvLayout::pages_for(positions_) * page_bytes * (layout.n_layers() + layout.n_states())}};
  }

 private:
  // Appends one pass of n positions with equal keys and values.
  Status append(size_t n) {
    const KvLayout& layout = model_.kv_layout();
    TRY(entry_.reserve(n));
    for (size_t i = 0; i < layout.n_states(); ++i) {
      std::fill_n(entry_.state().after(i), layout.state(i).floats, 1.0f);
      entry_.state().stage(i, n);
    }
    Barrier barrier(1);
    const Worker worker(0, 1, barrier);
    for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
      row_.resize(layout.layer(layer).kv_dim(), 1.0f);
      entry_.append(worker, kernels_for(*active_isa()), layer, row_.data(), row_.data(), 0, n);
    }
    entry_.commit(TokenSpan(ids_).subspan(entry_.length(), n));
    return {};
  }

  LanguageModel& model_;
  const size_t positions_;
  const Tokens ids_;
  std::vector<float> row_;
  KvPagePool pool_;
  LruKvCacheStore store_;
  KvCacheEntry entry_;
};

Status run(const ModelArguments& arguments, size_t positions, const std::vector<std::string>& ways) {
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model));
  TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(path));
  TRY_ASSIGN(const std::unique_ptr<LanguageModel> model, load_language_model(*file, arguments.options()));
  const KvLayout& layout = model->kv_layout();
  const size_t least = layout.bytes_for(positions) + KvLayout::kStatesAtWork * layout.state_bytes();
  const size_t engine = default_kv_budget_bytes(layout.page_bytes(), layout.state_bytes(), positions, SIZE_MAX);
  for (const std::string& way : ways) {
    const bool keeps_states = way == "engine";
    LongSequence sequence(*model, positions, keeps_states ? engine : least);
    TRY(sequence.fill(keeps_states));
    Json line = {{"engine", "ibid"},
                 {"model", path.substr(path.rfind('/') + 1)},
                 {"kv", arguments.kv},
                 {"what", "memory of a sequence"},
                 {"way", way}};
    line.update(sequence.figures());
    std::puts(json_to_string(line).c_str());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  CLI::App app("memory of the keys, values and states of one long sequence");
  ibid::ModelArguments arguments;
  size_t positions = 32768;
  std::vector<std::string> ways = {"least", "engine"};
  arguments.add_model(app, true);
  arguments.add_running(app);
  app.add_option("--positions", positions, "how long the sequence is")->check(CLI::Range(1, 1 << 24));
  app.add_option("--ways", ways, "least, engine or both (comma-separated)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"least", "engine"}));
  CLI11_PARSE(app, argc, argv);
  const ibid::Status status = ibid::run(arguments, positions, ways);
  if (!status.ok()) std::fprintf(stderr, "bench_memory: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
