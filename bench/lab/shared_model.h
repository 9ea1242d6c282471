// SharedModel: a loaded model as the model of several engines, so that a restart can be measured without loading it
// again. An engine owns its model; this one owns a share of it.
//
// Not thread-safe: of the engines on one model only one may run passes at a time, since each has a scheduler of its
// own.
#pragma once

#include <memory>
#include <utility>

#include "model/forward/language_model.h"

namespace ibid {

class SharedModel : public LanguageModel {
 public:
  explicit SharedModel(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {}

  size_t vocab_size() const override { return model_->vocab_size(); }
  size_t max_seq_len() const override { return model_->max_seq_len(); }
  size_t max_chunk() const override { return model_->max_chunk(); }
  const KvLayout& kv_layout() const override { return model_->kv_layout(); }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override {
    return model_->forward(batch, std::move(stop), logits);
  }

 private:
  const std::shared_ptr<LanguageModel> model_;
};

}  // namespace ibid
