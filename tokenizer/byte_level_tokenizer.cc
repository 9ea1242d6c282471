#include "tokenizer/byte_level_tokenizer.h"

#include <utility>

namespace ibid {
namespace {

BpeModel with_control(BpeModel model, const PipelineSpec& spec) {
  model.is_control = spec.special;
  return model;
}

}  // namespace

ByteLevelTokenizer::ByteLevelTokenizer(ByteLevelSpec spec)
    : PipelineTokenizer(std::move(static_cast<PipelineSpec&>(spec))),
      scan_(spec.scan),
      stages_(std::move(spec.split)),
      bpe_(this->spec().vocabulary, with_control(std::move(spec.bpe), this->spec())) {}

}  // namespace ibid
