#include "model/forward/pass.h"

#include <algorithm>
#include <utility>

#include "base/portable_math.h"

namespace ibid::forward {

namespace {

float query_scale(const ModelConfig& config, size_t position) {
  const size_t steps = (position + config.query_growth_shift) / config.query_growth_step;
  return static_cast<float>(1.0 + config.query_growth * portable_log(1.0 + static_cast<double>(steps)));
}

}  // namespace

Pass::Pass(const PassModel& of, std::span<const SequenceChunk> sequences_of, Logits& wanted)
    : model(of), batch(sequences_of) {
  for (const SequenceChunk& chunk : batch) add(chunk);
  share_blocks(sequences);
  if (model.kv_layout.window() != 0) find_windows();
  if (model.config.attention_chunk != 0) cut_into_chunks();
  gated = model.acts.gated;
  gated.set_rows(n_rows());
  logits.stride = model.weights.lm_head.n_panels() * kPanelRows;
  logits.data = wanted.resize(logit_rows.size(), model.config.vocab_size, logits.stride);
  if (logit_rows.empty()) logits.data = nullptr;
}

void Pass::add(const SequenceChunk& chunk) {
  const size_t first_row = n_rows();
  const size_t first_position = chunk.entry->length();
  const size_t n = chunk.tokens.size();
  sequences.push_back({chunk.entry->page_data(), first_row, n, first_position});
  for (size_t i = 0; i < n; ++i) {
    tokens.push_back(chunk.tokens[i]);
    positions.push_back(first_position + i);
    if (model.config.query_growth != 0) query_scales.push_back(query_scale(model.config, first_position + i));
    const bool wants = chunk.want == WantLogits::kAll || (chunk.want == WantLogits::kLast && i + 1 == n);
    if (wants && chunk.hidden == nullptr) logit_rows.push_back(first_row + i);
    if (!wants || chunk.hidden == nullptr) continue;
    const size_t place = chunk.want == WantLogits::kAll ? i : 0;
    hidden_rows.push_back({first_row + i, chunk.hidden + place * model.config.dim});
  }
}

// Fills `windows`: as `sequences`, but with the addresses of the pages' window parts (keys and values of layers with a
// sliding window). Sequences that share a page share its window part too.
void Pass::find_windows() {
  windows = sequences;
  for (AttentionSequence& sequence : windows) {
    size_t first_row = 0;
    const auto is_of = [&](const SequenceChunk& chunk) {
      const size_t begin = std::exchange(first_row, first_row + chunk.tokens.size());
      return begin == sequence.first_row;
    };
    sequence.pages = std::ranges::find_if(batch, is_of)->entry->page_data(PagePart::kWindow);
  }
}

// Splits the rows of each sequence by attention chunk. Each attention chunk becomes a sequence that begins with the
// chunk's first page.
void Pass::cut_into_chunks() {
  const size_t size = model.config.attention_chunk;
  for (const AttentionSequence& whole : sequences) {
    for (size_t done = 0; done < whole.n_rows;) {
      const size_t position = whole.first_position + done, begin = position / size * size;
      const size_t n = std::min(whole.n_rows - done, begin + size - position);
      chunks.push_back({whole.pages + begin / kPagePositions, whole.first_row + done, n, position - begin});
      done += n;
    }
  }
  share_blocks(chunks);
}

PassPart::PassPart(const Worker& w, Pass& of, size_t n_rows)
    : worker(w),
      pass(of),
      model(of.model),
      computes_all(n_rows <= Activations::kOwnRows),
      buffers(computes_all ? model.acts.own[static_cast<size_t>(w.index())] : model.acts.shared),
      rows(computes_all ? Range{0, n_rows} : w.share(n_rows)) {
  for (LinearInput* input : {&buffers.h, &buffers.attended, &buffers.q_latent, &buffers.laurel, &buffers.layer_gated,
                             &buffers.router_h, &buffers.mixed, &buffers.recurrent_low, &buffers.wide}) {
    input->set_rows(n_rows);
  }
}

}  // namespace ibid::forward
