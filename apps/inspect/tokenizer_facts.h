// What a file's tokenizer is, in words.
#pragma once

#include <optional>

#include "apps/inspect/fact.h"
#include "tokenizer/loading/tokenizer_loaders.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// Family and pre-tokenizer as the file names them, and, of one that was loaded, its tokens. tokenizer: nullptr where
// it cannot be loaded.
Facts tokenizer_facts(const std::optional<TokenizerKind>& kind, const Tokenizer* tokenizer);

}  // namespace ibid
