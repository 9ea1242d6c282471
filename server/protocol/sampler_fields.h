// How an answer is sampled: the fields that requests of every protocol have, under all their usual names. OpenAI,
// llama.cpp, vLLM and Ollama ("options") read this one table, whose ranges are those of SamplerOptions.
#pragma once

#include <span>

#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

std::span<const Field<AnswerRequest>> sampler_fields();

// Most entries, and most bytes of each.
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;
// A text, or a list of texts. For protocols that call the field otherwise ("stop_sequences").
MaybeFault read_stop(const Json& value, AnswerRequest& request);

// What no single field shows; the fault has the field in its param. Called once all fields are read.
MaybeFault check_sampler(const AnswerRequest& request);

}  // namespace ibid::serve
