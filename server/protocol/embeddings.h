// POST /v1/embeddings (OpenAI), /api/embed and the older /api/embeddings (Ollama): vectors of texts.
//
// All of them are of length 1. `dimensions` keeps the first numbers of each and brings them to length 1 again: what
// models are trained for whose embeddings are nested (Matryoshka), as Qwen3-Embedding; others get worse by it.
#pragma once

#include <span>

#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "server/service/request.h"

namespace ibid::serve {

// Inputs of one request.
inline constexpr size_t kMaxInputs = 2048;

struct EmbeddingCall {
  EmbeddingRequest request;
  bool as_base64 = false;
};

std::span<const Field<EmbeddingCall>> openai_embedding_fields();
std::span<const Field<EmbeddingCall>> ollama_embed_fields();
std::span<const Field<EmbeddingCall>> ollama_embeddings_fields();

void post_embeddings(const Site& site, const http::ExchangePtr& exchange);
void post_ollama_embed(const Site& site, const http::ExchangePtr& exchange);
void post_ollama_embeddings(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
