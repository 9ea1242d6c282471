// RemoteTalk: a conversation whose answers come from a server (apps/chat_client/chat_server.h). It holds the
// messages and sends all of them each time; what was read once, a server that can will find again.
//
// Reasoning that the server tells apart stands in the answer between "<think>" and "</think>", as models write it; in
// the message that is kept it is a field of its own.
//
// kUnsupported: several answers at once, pins, what a full context does, files.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/chat/sampling_options.h"
#include "apps/chat/talk.h"
#include "apps/chat_client/chat_server.h"

namespace ibid {

// The server and the options that all branches of a conversation share.
struct RemoteModel {
  ChatServer server;
  ServedModel model;                      // the name may be empty: the server's own choice
  std::set<const SamplingOption*> given;  // options that a person has set; of the others the server decides
  Json fields = Json::object();           // more fields of every request

  // "smollm2 at http://127.0.0.1:8080"
  std::string name() const;
};

// The model of this name, or the first of the server's; a server without a list of models may have it all the same.
// Errors: those of ChatServer::models(); kNotFound: the server has no model.
Result<std::shared_ptr<RemoteModel>> find_remote_model(ServerAddress address, const std::string& name);

// Spares a person endless answers: an answer ends after a quarter of the context, and when it repeats itself, unless
// something else was given or the server is not known to have such options.
void spare_person(RemoteModel& model, TurnOptions& options);

class RemoteTalk final : public Talk {
 public:
  // system: empty: none.
  RemoteTalk(std::shared_ptr<RemoteModel> model, const std::string& system);

  const Json& messages() const override { return messages_; }
  Result<Turn> send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> answer(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> regenerate(const TurnOptions& options, const TurnCallback& on_event) override;
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
  Result<std::unique_ptr<Talk>> fork() const override;

  Status can_be_kept() const override;
  Status save(const std::string& path) const override;
  Result<std::unique_ptr<Talk>> load(const std::string& path) const override;
  FileOps& files() const override { return system_file_ops(); }

  std::optional<size_t> count_tokens(std::string_view) const override { return std::nullopt; }
  std::optional<WhenFull> when_full() const override { return std::nullopt; }
  bool is_room_short(size_t) const override { return false; }
  Status take_over(const SamplingOption& option) override;
  bool decides(const SamplingOption& option) const override { return model_->given.contains(&option); }
  std::vector<std::string> describe_model() const override;
  std::vector<std::string> describe_costs() override;

 private:
  // Answers these messages, which are the conversation then, with the answer.
  Result<Turn> answer_to(Json messages, const TurnOptions& options, const TurnCallback& on_event);
  Json request_of(const Json& messages, const TurnOptions& options) const;

  std::shared_ptr<RemoteModel> model_;
  Json messages_ = Json::array();
  Usage usage_;
  Timings last_;
  size_t n_last_ = 0;  // tokens of the conversation, as the server said last; 0: it did not
};

}  // namespace ibid
