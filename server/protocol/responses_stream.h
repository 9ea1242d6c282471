// ResponseStream: an answer as the events of the Responses API. Each event has its name twice, as SSE and as "type",
// and a sequence_number. In their order: response.created, response.in_progress; for each item output_item.added, what
// is in it, output_item.done; response.completed, response.incomplete or response.failed.
//
// Log-probabilities come with the delta of their text, and once more, all of the message, where it is done. Those of
// reasoning and of calls have no place in this protocol.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/protocol/responses.h"

namespace ibid::serve {

class ResponseStream final : public StreamReply {
 public:
  ResponseStream(http::ExchangePtr exchange, ResponseContext context);

 protected:
  void opened() override;
  void said(size_t i, std::string_view text) override;
  void thought(size_t i, std::string_view text) override;
  void called(size_t i, size_t call, std::string_view id, std::string_view name) override;
  void call_part(size_t i, size_t call, std::string_view part) override;
  void answered(size_t i, const Answer& answer) override;
  void finished() override;
  void failed(const Fault& fault) override;

 private:
  // The item that is open.
  enum class Item { kNone, kReasoning, kMessage, kCall };

  // An event about the open item: its id and place are added.
  Json item_event(const char* type) const;
  void emit(Json event);
  void open(Item kind, std::string id, Json item);
  void open_message();
  void begin_part(Json part);
  void end_part(Json part);
  // status: of the item.
  void close(const char* status = "completed");
  void close_reasoning();
  void close_message();
  void close_call();
  // What was heard since the last time, as JSON; it is the message's from now on.
  Json take_output_logprobs(const std::vector<TokenLogprobs>& tokens);

  ResponseContext context_;
  size_t sequence_ = 0;
  Item item_ = Item::kNone;
  std::string item_id_;
  size_t n_items_ = 0;      // that were opened
  std::string text_;        // of the open item
  ToolCall call_;           // of an open call
  Json logprobs_ = Json::array();                // of the open message
};

}  // namespace ibid::serve
