// Feeding given ids to a model, outside any conversation: for the tools that check its numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "ibid/token.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"

namespace ibid {

// Opens and loads the model at `path`.
Result<std::unique_ptr<LanguageModel>> load_for_feeding(const std::string& path, const ModelOptions& options);

// Feeds `tokens` as one new sequence, in chunks of the given sizes, repeated (none: as large as the model
// takes, but small enough that the logits of a chunk fit in 256 MB), and calls on_row for every position.
// The pool for keys and values lives for the call. Errors: those of LanguageModel::forward().
Status feed(LanguageModel& model, TokenSpan tokens, std::span<const size_t> chunks,
            const std::function<void(size_t position, std::span<const float> logits)>& on_row);

}  // namespace ibid
