// Requests of Ollama's API as AnswerRequests. Pure functions.
//
// Samplers stand in "options", by the names of sampler_fields.h; what is there for a machine's memory (num_ctx, num_gpu
// ...) is read over, because the server decides that once for all.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "server/protocol/call.h"

namespace ibid::serve {

struct OllamaCall {
  AnswerRequest request;
  bool stream = true;
  bool raw = false;                 // generate: the prompt is the model's whole text
  std::string prompt = {};          // generate
  std::string system = {};          // generate
  std::optional<size_t> top_logprobs = {};
};

std::span<const Field<OllamaCall>> ollama_fields();           // of both
std::span<const Field<OllamaCall>> ollama_chat_fields();
std::span<const Field<OllamaCall>> ollama_generate_fields();
std::span<const Field<OllamaCall>> ollama_show_fields();
std::span<const Field<AnswerRequest>> ollama_option_fields(); // of "options", besides sampler_fields()

MaybeFault read_ollama_chat(const Site& site, const http::Request& source, OllamaCall& call);
MaybeFault read_ollama_generate(const Site& site, const http::Request& source, OllamaCall& call);

// keep_alive: a number of seconds, or a duration as Go writes it ("5m", "1h30m"); below 0 is "for good".
MaybeFault read_keep_alive(const Json& value, std::optional<std::chrono::milliseconds>& keep_alive);

}  // namespace ibid::serve
