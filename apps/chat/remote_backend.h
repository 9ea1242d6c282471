// RemoteBackend: a conversation answered by a server (apps/chat_client/chat_server.h). It stores the messages and sends
// all of them with each request; the server may cache the prefix that is the same as in the previous request.
//
// Reasoning that the server reports separately appears in the answer between "<think>" and "</think>", as models write
// it; the stored message has it in a field of its own. Not supported (kUnsupported): several answers at once, pins,
// when_full policies, files.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/chat/chat_backend.h"
#include "apps/chat/sampling_options.h"
#include "apps/chat_client/chat_server.h"

namespace ibid {

// A server, one of its models and the settings, shared by all branches of a conversation.
struct RemoteModel {
  ChatServer server;
  ServedModel model;                      // if its name is empty, the server chooses the model
  std::set<const SamplingOption*> given;  // options that the user set; the server decides all others
  Json fields = Json::object();           // fields that are added to each request

  // Returns "smollm2 at http://127.0.0.1:8080".
  std::string name() const;
};

// Finds a model by name; empty: the first one of the server. A name that is not listed is accepted, because servers may
// know models that they do not list. Errors: those of ChatServer::models(); kNotFound: the server has no model.
Result<std::shared_ptr<RemoteModel>> find_remote_model(ServerAddress address, const std::string& name);

// Sets limits for answers that a person reads: at most a quarter of the context, and an end at repetition. Does not
// change options that the user set, or that the server may not support.
void limit_answers_for_people(RemoteModel& model, TurnOptions& options);

class RemoteBackend final : public ChatBackend {
 public:
  // system: the system message; empty: no system message is sent.
  RemoteBackend(std::shared_ptr<RemoteModel> model, const std::string& system);

  const Json& messages() const override { return messages_; }
  Result<Turn> send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> answer(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> regenerate(const TurnOptions& options, const TurnCallback& on_event) override;
  // Sends the request in the form of llama.cpp's server and vLLM; other servers may refuse it or begin a new answer.
  Result<Turn> continue_answer(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                             const AnswersCallback& on_event) override;
  Status choose(size_t answer) override;

  Status append(Json message) override;
  Status rewind_to(size_t n_messages) override;
  Status set_history(Json messages) override;
  Status reset() override;
  Status set_system(std::string_view text) override;
  Status pin(size_t message) override;
  Status set_when_full(WhenFull policy) override;
  Result<std::unique_ptr<ChatBackend>> fork() const override;

  Status can_be_kept() const override;
  Status save(const std::string& path) const override;
  Result<std::unique_ptr<ChatBackend>> load(const std::string& path) const override;
  FileOps& files() const override { return system_file_ops(); }

  std::optional<size_t> count_tokens(std::string_view) const override { return std::nullopt; }
  std::optional<WhenFull> when_full() const override { return std::nullopt; }
  bool may_overflow_context(size_t) const override { return false; }
  Status note_option_set(const SamplingOption& option) override;
  bool decides(const SamplingOption& option) const override { return model_->given.contains(&option); }
  std::vector<std::string> describe_model() const override;
  std::vector<std::string> describe_costs() override;

 private:
  // Sends `messages`. If they are answered, the messages and the answer become the conversation.
  Result<Turn> answer_to(Json messages, const TurnOptions& options, const TurnCallback& on_event);
  Json request_of(const Json& messages, const TurnOptions& options) const;

  std::shared_ptr<RemoteModel> model_;
  Json messages_ = Json::array();
  Usage usage_;
  Timings last_;
  size_t n_last_ = 0;  // tokens of the conversation as last reported by the server; 0: unknown
};

}  // namespace ibid
