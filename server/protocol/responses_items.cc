#include "server/protocol/responses_items.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>
#include <utility>

#include "server/protocol/chat_messages.h"
#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr std::string_view kCallEnd = "_call", kOutputEnd = "_output";
constexpr const char* kContinues = "continues_previous";

// Reads items in order. Reasoning is kept until the text or the call to which it belongs is read.
class ItemReader {
 public:
  explicit ItemReader(Json& messages) : messages_(messages) {}

  void read(const Json& item, const ReadPlace& place) {
    if (!item.is_object()) throw wrong_type("must be an object");
    const Json* type_value = member(item, "type");
    if (type_value != nullptr && !type_value->is_string()) throw wrong_type("must be a string", ".type");
    const std::string_view type = type_of(item);
    if (type.empty() || type == "message") return read_message(item, place);
    if (type == "reasoning") return read_reasoning(item);
    if (type == "function_call") return read_call(item, need_text(item, "name", 1), need_text(item, "arguments"));
    if (type == "function_call_output") return read_output(item, place);
    const std::string* call_id = text_member(item, "call_id");
    if (call_id != nullptr && type.ends_with(kCallEnd)) return read_other_call(item, type);
    if (call_id != nullptr && type.ends_with(kOutputEnd) && shown_calls_.contains(*call_id)) {
      return read_output(item, place);
    }
    place.leave_out(type);
  }

 private:
  void read_message(const Json& item, const ReadPlace& place) {
    // The roles and contents of messages are those of chat completions, except for the types of the contents' parts.
    const bool was_answer = goes_on_;
    read_chat_message(item, place, messages_);
    goes_on_ = is_from(messages_.back(), Role::kAssistant);
    const Json* continues = member(item, kContinues);
    if (goes_on_ && was_answer && continues != nullptr && *continues == true) join_last();
    if (goes_on_) take_reasoning(messages_.back());
  }

  // Appends the text of the last message to the message before it.
  void join_last() {
    const std::string added = *content_of(messages_.back());
    messages_.erase(messages_.size() - 1);
    set_content(messages_.back(), *content_of(messages_.back()) + added);
  }

  // Reads a call of a tool that is not a function: {"name", "input": text}, or {"action" or "operation": object}.
  void read_other_call(const Json& item, std::string_view type) {
    const std::string* name = text_member(item, "name");
    std::string arguments = arguments_text(item);
    for (const char* key : {"action", "operation"}) {
      if (const Json* action = member(item, key)) arguments = json_to_string(*action);
    }
    type.remove_suffix(kCallEnd.size());
    read_call(item, name == nullptr || name->empty() ? std::string(type) : *name, arguments);
  }

  void read_call(const Json& item, const std::string& name, const std::string& arguments) {
    const std::string& id = need_text(item, "call_id");
    if (!goes_on_ || !reasoning_.empty()) {
      Json message = make_message(Role::kAssistant, "");
      take_reasoning(message);
      messages_.push_back(std::move(message));
      goes_on_ = true;
    }
    messages_.back()["tool_calls"].push_back(tool_call_json(id, name, arguments));
    shown_calls_.insert(id);
  }

  void read_output(const Json& item, const ReadPlace& place) {
    const std::string& id = need_text(item, "call_id");
    const Json* output = member(item, "output");
    if (output == nullptr && type_of(item) == "function_call_output" && !item.contains("output")) {
      throw wrong_type("must be a string", ".output");
    }
    std::string text;
    if (output == nullptr) {  // another field may have the result: a search returns `tools`
      const Json* tools = member(item, "tools");
      messages_.push_back(tool_message(id, tools == nullptr ? std::string() : json_to_string(*tools)));
      goes_on_ = false;
      return;
    }
    const bool has_parts = output->is_array() && !output->empty() && !type_of(output->front()).empty();
    if (type_of(*output).find("screenshot") != std::string_view::npos) {
      place.leave_out(type_of(*output));
    } else if (output->is_string() || has_parts || type_of(item) == "function_call_output") {
      read_at(".output", [&] { text = read_content(*output, place.at("output")); });
    } else {
      text = json_to_string(*output);
    }
    messages_.push_back(tool_message(id, std::move(text)));
    goes_on_ = false;
  }

  void read_reasoning(const Json& item) {
    const Json* content = member(item, "content");
    if (content == nullptr) return;  // the item has only a summary: the client did not get the reasoning itself
    if (!content->is_array()) throw wrong_type("must be a list", ".content");
    for (const Json& part : *content) {
      if (const std::string* text = text_member(part, "text")) reasoning_ += *text;
    }
  }

  void take_reasoning(Json& message) {
    if (reasoning_.empty()) return;
    const std::string* before = text_member(message, "reasoning_content");
    message["reasoning_content"] = (before == nullptr ? std::string() : *before) + std::exchange(reasoning_, {});
  }

  Json& messages_;
  std::set<std::string> shown_calls_;  // ids of the calls that are part of the messages
  std::string reasoning_;
  bool goes_on_ = false;  // the last message belongs to the answer that is being read
};

const char* prefix_of_item(const std::string& type) {
  if (type == "function_call") return "fc_";
  if (type == "function_call_output") return "fco_";
  if (type == "reasoning") return "rs_";
  return type == "message" ? "msg_" : "it_";
}

Json stored_part(const std::string& role, const std::string& text) {
  if (role == role_name(Role::kAssistant)) return output_text(text, Json::array());
  return {{"type", "input_text"}, {"text", text}};
}

}  // namespace

void read_input(const Json& input, Json& messages, IgnoredParts& ignored, size_t n_before) {
  if (input.is_string()) {
    messages.push_back(make_message(Role::kUser, input.get<std::string>()));
    return;
  }
  if (!input.is_array()) throw wrong_type("must be a string or a list of items");
  check_shape({.shape = Shape::kList, .least = 0, .most = kMaxMessages}, input);
  IgnoredParts of_earlier;
  ItemReader reader(messages);
  for (size_t i = 0; i < input.size(); ++i) {
    const ReadPlace place =
        i < n_before ? ReadPlace{"", of_earlier} : ReadPlace{"input" + place_in_list(i - n_before), ignored};
    read_at(place_in_list(i), [&] { reader.read(input[i], place); });
  }
}

Json stored_items(const Json& input, const std::function<std::string(std::string_view prefix)>& new_id) {
  Json items = input;
  if (input.is_string()) items = Json::array({{{"role", role_name(Role::kUser)}, {"content", input}}});
  for (Json& item : items) {
    if (member(item, "type") == nullptr) item["type"] = "message";
    if (text_member(item, "id") == nullptr) item["id"] = new_id(prefix_of_item(item["type"]));
    if (text_member(item, "status") == nullptr) item["status"] = "completed";
    const std::string* text = item["type"] == "message" ? text_member(item, "content") : nullptr;
    if (text != nullptr) item["content"] = Json::array({stored_part(item["role"], *text)});
  }
  return items;
}

Json reasoning_text(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

Json reasoning_item(const std::string& id, const std::string& text, const char* status) {
  return {{"type", "reasoning"},
          {"id", id},
          {"summary", Json::array()},
          {"content", text.empty() ? Json::array() : Json::array({reasoning_text(text)})},
          {"status", status}};
}

Json message_item(const std::string& id, Json content, const char* status) {
  return {{"type", "message"}, {"id", id}, {"status", status}, {"role", "assistant"}, {"content", std::move(content)}};
}

Json continuing_item(Json message) {
  message[kContinues] = true;
  return message;
}

Json output_text(const std::string& text, Json logprobs) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", std::move(logprobs)}};
}

Json call_item(const std::string& id, const ToolCall& call, const char* status) {
  return {{"type", "function_call"},     {"id", id},        {"call_id", call.id}, {"name", call.name},
          {"arguments", call.arguments}, {"status", status}};
}

namespace {

constexpr size_t kDefaultLimit = 20, kMostLimit = 100;

struct Page {
  size_t limit = kDefaultLimit;
  bool newest_first = true;
  std::string_view after = {};
};

// Reads the query parameters of a page; ignores unknown ones. Ids and numbers have no characters that need decoding.
Page read_page(std::string_view query) {
  Page page;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    const std::string_view value = pair.substr(std::min(pair.size(), equals + 1));
    if (name == "limit") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), page.limit);
      const bool is_number = error == std::errc() && end == value.data() + value.size();
      if (!is_number || page.limit < 1 || page.limit > kMostLimit) {
        throw Fault{.message = "must be a whole number from 1 to " + std::to_string(kMostLimit), .param = "limit"};
      }
    } else if (name == "order") {
      if (value != "asc" && value != "desc") {
        throw Fault{.message = "must be \"asc\" or \"desc\"", .param = "order"};
      }
      page.newest_first = value == "desc";
    } else if (name == "after") {
      page.after = value;
    }
  }
  return page;
}

}  // namespace

void respond_items(http::Exchange& exchange, Json items) {
  const Page page = read_page(exchange.request().query);
  if (page.newest_first) std::reverse(items.begin(), items.end());
  size_t first = 0;
  if (!page.after.empty()) {
    while (first < items.size() && items[first]["id"] != page.after) ++first;
    if (first == items.size()) throw Fault{.message = "is not an item of this list", .param = "after"};
    ++first;
  }
  const size_t end = std::min(items.size(), first + page.limit);
  Json data = Json::array();
  for (size_t i = first; i < end; ++i) data.push_back(std::move(items[i]));
  const Json first_id = data.empty() ? Json() : data.front()["id"], last_id = data.empty() ? Json() : data.back()["id"];
  respond_json(exchange, {{"object", "list"},
                          {"first_id", first_id},
                          {"last_id", last_id},
                          {"has_more", end < items.size()},
                          {"data", std::move(data)}});
}

}  // namespace ibid::serve
