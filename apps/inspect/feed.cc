#include "apps/inspect/feed.h"

#include <algorithm>

#include "model/load_model.h"
#include "weights/model_file.h"

namespace ibid {

namespace {
constexpr size_t kMaxLogitsBytes = size_t{256} << 20;
}

Result<std::unique_ptr<LanguageModel>> load_for_feeding(const std::string& path, const ModelOptions& options) {
  TRY_ASSIGN(const auto file, open_model_file(path));
  return load_language_model(*file, options);
}

Status feed(LanguageModel& model, TokenSpan tokens, std::span<const size_t> chunks,
            const std::function<void(size_t, std::span<const float>)>& on_row) {
  const size_t most = std::clamp<size_t>(kMaxLogitsBytes / (model.vocab_size() * sizeof(float)), 1, model.max_chunk());
  KvPagePool pool(model.kv_layout(), model.kv_layout().room_for(tokens.size() + 1));
  KvCacheEntry entry(pool);
  Logits logits;
  for (size_t begin = 0, step = 0; begin < tokens.size(); ++step) {
    const size_t wanted = chunks.empty() ? most : std::min(chunks[step % chunks.size()], model.max_chunk());
    const size_t n = std::min(wanted, tokens.size() - begin);
    const SequenceChunk chunk{&entry, tokens.subspan(begin, n), WantLogits::kAll};
    TRY(model.forward(std::span(&chunk, 1), {}, logits));
    for (size_t i = 0; i < n; ++i) on_row(begin + i, logits.row(i));
    begin += n;
  }
  return {};
}

}  // namespace ibid
