// GET /v1/models and GET /v1/models/{id}: one answer in the words of OpenAI and of Anthropic.
#pragma once

#include <string>

#include "server/protocol/site.h"

namespace ibid::serve {

// {"id", "object": "model", "created", "owned_by"}; of a loaded model also "meta", as llama.cpp has it.
Json openai_model_json(const ModelCard& card);

void get_models(const Site& site, const http::ExchangePtr& exchange);
void get_model(const Site& site, const http::ExchangePtr& exchange, const std::string& name);

}  // namespace ibid::serve
