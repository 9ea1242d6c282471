// Ollama's API: /api/chat, /api/generate, /api/tags, /api/show, /api/ps, /api/version. Streams are lines of JSON, and
// are what a request gets that does not say otherwise. Durations are in nanoseconds; prompt_eval_count counts what was
// cached, too.
#pragma once

#include "server/protocol/site.h"

namespace ibid::serve {

void post_ollama_chat(const Site& site, const http::ExchangePtr& exchange);
void post_ollama_generate(const Site& site, const http::ExchangePtr& exchange);
void post_ollama_show(const Site& site, const http::ExchangePtr& exchange);
void get_ollama_tags(const Site& site, const http::ExchangePtr& exchange);
void get_ollama_ps(const Site& site, const http::ExchangePtr& exchange);
void get_ollama_version(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
