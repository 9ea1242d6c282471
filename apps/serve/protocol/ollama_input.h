// Requests of Ollama's API as AnswerRequests. Pure functions.
//
// Samplers stand in "options", by the names of sampler_fields.h; what is there for a machine's memory (num_ctx, num_gpu
// ...) is read over, because the server decides that once for all.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "apps/serve/protocol/call.h"

namespace ibid::serve {

struct OllamaCall {
  AnswerRequest request;
  bool stream = true;
  bool raw = false;                 // generate: the prompt is the model's whole text
  bool keeps_model = true;          // false: keep_alive is 0
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

// keep_alive, a number of seconds or a duration ("5m"): how long models stay is the server's to say, but 0 is "unload
// now".
MaybeFault read_keep_alive(const Json& value, bool& keeps_model);

// A model as requests name it: Ollama's clients put ":latest" behind a name without a tag.
std::string ollama_model_name(const std::string& name);

}  // namespace ibid::serve
