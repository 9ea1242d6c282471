// ServiceBackend: the Backend of a server, over its AnswerService and its ModelHost. The one file of the protocols that
// knows engines. Thread-safe.
#pragma once

#include <memory>

#include "server/protocol/backend.h"

namespace ibid::serve {

class AnswerService;
class ModelHost;

// REQUIRES: both outlive it.
std::shared_ptr<Backend> make_service_backend(AnswerService& service, ModelHost& models);

}  // namespace ibid::serve
