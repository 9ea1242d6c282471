#include "server/protocol/prompts.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "tokenizer/tokenizer.h"

namespace ibid::serve {

void check_text_body(const http::Request& request) {
  if (request.body.size() <= kMaxTextBodyBytes) return;
  throw Fault{.status = 413,
              .message = "the body has " + std::to_string(request.body.size()) + " bytes, at most " +
                         std::to_string(kMaxTextBodyBytes) + " are allowed",
              .code = "request_too_large"};
}

Backend::Then<Tokens> respond_input_tokens(const http::ExchangePtr& exchange) {
  return [exchange](const Result<Tokens>& ids) {
    answer_or_refuse(*exchange, [&] {
      if (!ids.ok()) throw fault_of(ids.status());
      Json json = Json::object();
      if (style_of_path(exchange->request().path) != ErrorStyle::kAnthropic) json["object"] = "response.input_tokens";
      json["input_tokens"] = ids->size();
      respond_json(*exchange, json);
    });
  };
}

void read_token_ids(const Json& list, Tokens& ids) {
  const FieldRule rule{.shape = Shape::kInteger, .least = 0, .most = 2147483647};
  if (list.size() > kMaxPromptIds) {
    throw Fault{.message = "has " + std::to_string(list.size()) + " token ids, at most " +
                           std::to_string(kMaxPromptIds) + " are allowed"};
  }
  ids.reserve(list.size());
  read_each(list, [&](const Json& id) {
    check_shape(rule, id);
    ids.push_back(static_cast<TokenId>(integer_of(id)));
  });
}

namespace {

void read_object(const Json& value, Prompt& prompt) {
  const Json* media = member(value, "multimodal_data");
  if (media != nullptr && !(media->is_array() && media->empty())) {
    throw Fault{.message = "only text is supported", .param = ".multimodal_data", .code = "unsupported_content"};
  }
  const Json* content = member(value, "content");
  if (content == nullptr) {
    prompt = need_text(value, "prompt_string", 1);
    return;
  }
  if (!content->is_array() || content->empty()) throw wrong_type("must be a list of parts", ".content");
  std::string text;
  read_at(".content", [&] {
    read_each(*content, [&](const Json& part) {
      if (type_of(part) != "text") {
        throw Fault{.message = "only text is supported", .param = ".type", .code = "unsupported_content"};
      }
      text += need_text(part, "text");
    });
  });
  if (text.empty()) throw Fault{.message = "must not be empty", .param = ".content"};
  prompt = std::move(text);
}

// Reads a list of texts and tokens as the pieces of one prompt.
void read_pieces(const Json& list, Prompt& prompt) {
  PromptPieces pieces;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_string()) {
      pieces.emplace_back(list[i].get<std::string>());
      continue;
    }
    Json ids = Json::array();
    const size_t first = i;
    for (; i < list.size() && !list[i].is_string(); ++i) ids.push_back(list[i]);
    Tokens tokens;
    try {
      read_token_ids(ids, tokens);
    } catch (Fault& fault) {  // fault.param has an index in `ids`, which the client does not know
      fault.param = place_in_list(first);
      throw;
    }
    pieces.emplace_back(std::move(tokens));
    --i;
  }
  prompt = std::move(pieces);
}

void read_one(const Json& value, Prompt& prompt) {
  if (value.is_object()) return read_object(value, prompt);
  // A list of lists or objects is no list of tokens, so it is not one prompt.
  const bool is_list = value.is_array() && (value.empty() || !value[0].is_structured());
  if (!is_list && !value.is_string()) throw wrong_type("must be a string or a list of token ids");
  if (is_text(value, "") || value.empty()) throw Fault{.message = "must not be empty"};
  if (value.is_string()) {
    prompt = value.get<std::string>();
  } else if (std::ranges::any_of(value, [](const Json& one) { return one.is_string(); })) {
    read_pieces(value, prompt);
  } else {
    read_token_ids(value, prompt.emplace<Tokens>());
  }
}

// True if `value` is a list of several prompts, and not one prompt as a list of tokens, or of tokens and texts.
bool is_several(const Json& value) {
  if (!value.is_array() || value.empty()) return false;
  if (std::ranges::any_of(value, [](const Json& one) { return one.is_structured(); })) return true;
  return std::ranges::all_of(value, [](const Json& one) { return one.is_string(); });
}

}  // namespace

void read_prompts(const Json& value, std::vector<Prompt>& prompts, size_t most) {
  if (!is_several(value)) return read_one(value, prompts.emplace_back());
  if (value.size() > most) {
    throw Fault{.message = "has " + std::to_string(value.size()) + " entries, at most " + std::to_string(most) +
                           " are allowed in one request"};
  }
  read_each(value, [&](const Json& one) { read_one(one, prompts.emplace_back()); });
}

std::string text_of_prompt(const Prompt& prompt, const Tokenizer* tokenizer) {
  const auto text_of_ids = [&](const Tokens& ids) { return tokenizer == nullptr ? "" : tokenizer->decode(ids); };
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  if (const auto* infill = std::get_if<Infill>(&prompt)) return infill->prefix;
  if (const auto* ids = std::get_if<Tokens>(&prompt)) return text_of_ids(*ids);
  std::string all;
  for (const auto& piece : std::get<PromptPieces>(prompt)) {
    const auto* text = std::get_if<std::string>(&piece);
    all += text != nullptr ? *text : text_of_ids(std::get<Tokens>(piece));
  }
  return all;
}

Infill infill_of(Prompt prefix, const std::string& suffix) {
  auto* text = std::get_if<std::string>(&prefix);
  if (text == nullptr) throw Fault{.message = "needs a prompt that is a string", .param = "suffix"};
  return {.prefix = std::move(*text), .suffix = suffix};
}

namespace {

// State shared by the listeners of the prompts. The service may call several of them at once, but the listener of the
// response receives one event at a time.
class PromptList {
 public:
  using Event = std::function<void(AnswerListener& reply)>;

  PromptList(std::shared_ptr<AnswerListener> reply, size_t n_prompts, std::stop_token gone)
      : n_open_(n_prompts),
        reply_(std::move(reply)),
        gone_(std::move(gone), [stop = stop_]() mutable { stop.request_stop(); }) {}

  std::stop_token stop_token() const { return stop_.get_token(); }

  // Sends an event after those that were sent before; if another thread sends now, that thread sends this event too.
  // An event owns its data. It is sent without the lock, because it may end prompts: if the client has left, it
  // requests gone().
  void send(Event event) {
    std::unique_lock lock(mutex_);
    events_.push_back(std::move(event));
    if (std::exchange(is_sending_, true)) return;
    while (!events_.empty()) {
      const Event next = std::move(events_.front());
      events_.pop_front();
      lock.unlock();
      next(*reply_);
      lock.lock();
    }
    is_sending_ = false;
  }
  void send_once(bool PromptList::*was_sent, Event event) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(this->*was_sent, true)) return;
    }
    send(std::move(event));
  }

  // Ends one prompt. Stops the others at the first error, and ends the response after the last prompt.
  void end(const Status& status) {
    bool is_first_error = false, is_last = false;
    {
      const std::lock_guard lock(mutex_);
      is_first_error = error_.ok() && !status.ok();
      if (is_first_error) error_ = status;
      is_last = --n_open_ == 0;
    }
    if (is_last) return send([error = error_](AnswerListener& reply) { reply.end(error); });
    if (is_first_error) stop_.request_stop();  // without the lock: may end other prompts within the call
  }

  bool has_begun = false, was_queued = false, was_ignored = false;

 private:
  std::mutex mutex_;  // guards the next four members, and the flags above; nothing is sent under it
  std::deque<Event> events_;
  bool is_sending_ = false;
  size_t n_open_;
  Status error_;  // constant after the last prompt has ended
  const std::shared_ptr<AnswerListener> reply_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> gone_;
};

class PromptListener final : public AnswerListener {
 public:
  PromptListener(std::shared_ptr<PromptList> list, size_t first) : list_(std::move(list)), first_(first) {}

  void queued(std::chrono::nanoseconds waited) override {
    list_->send_once(&PromptList::was_queued, [=](AnswerListener& reply) { reply.queued(waited); });
  }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override {
    list_->send_once(&PromptList::has_begun, [=, tokenizer = std::move(tokenizer)](AnswerListener& reply) {
      reply.begin(model, n_prompt, tokenizer);
    });
  }
  void prompt_scores(size_t i, std::shared_ptr<const PromptScores> scores) override {
    list_->send(
        [i = first_ + i, scores = std::move(scores)](AnswerListener& reply) { reply.prompt_scores(i, scores); });
  }
  void ignored(const IgnoredParts& parts) override {
    list_->send_once(&PromptList::was_ignored, [=](AnswerListener& reply) { reply.ignored(parts); });
  }
  void prompt_tokens(size_t i, TokenSpan ids) override {
    list_->send(
        [i = first_ + i, ids = Tokens(ids.begin(), ids.end())](AnswerListener& reply) { reply.prompt_tokens(i, ids); });
  }
  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) override {
    list_->send([i = first_ + i, tokens = std::vector(tokens.begin(), tokens.end())](AnswerListener& reply) {
      reply.logprobs(i, tokens);
    });
  }
  void content(size_t i, std::string_view text) override {
    list_->send([i = first_ + i, text = std::string(text)](AnswerListener& reply) { reply.content(i, text); });
  }
  void reasoning(size_t i, std::string_view text) override {
    list_->send([i = first_ + i, text = std::string(text)](AnswerListener& reply) { reply.reasoning(i, text); });
  }
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) override {
    list_->send([i = first_ + i, call, id = std::string(id), name = std::string(name)](AnswerListener& reply) {
      reply.tool_call(i, call, id, name);
    });
  }
  void tool_arguments(size_t i, size_t call, std::string_view part) override {
    list_->send([i = first_ + i, call, part = std::string(part)](AnswerListener& reply) {
      reply.tool_arguments(i, call, part);
    });
  }
  void answer(size_t i, const Answer& answer) override {
    list_->send([i = first_ + i, answer](AnswerListener& reply) { reply.answer(i, answer); });
  }
  void come_again(std::chrono::seconds wait) override {
    list_->send([=](AnswerListener& reply) { reply.come_again(wait); });
  }
  void end(const Status& status) override { list_->end(status); }

 private:
  std::shared_ptr<PromptList> list_;
  size_t first_;
};

}  // namespace

void start_prompts(Backend& backend, const AnswerRequest& request, std::vector<Prompt> prompts,
                   std::shared_ptr<AnswerListener> reply, std::stop_token gone) {
  if (prompts.size() == 1) {
    AnswerRequest only = request;
    only.prompt = std::move(prompts.front());
    return backend.start(std::move(only), std::move(reply), std::move(gone));
  }
  const auto list = std::make_shared<PromptList>(std::move(reply), prompts.size(), std::move(gone));
  for (size_t p = 0; p < prompts.size(); ++p) {
    AnswerRequest one = request;
    one.prompt = std::move(prompts[p]);
    backend.start(std::move(one), std::make_shared<PromptListener>(list, p * request.n_answers()), list->stop_token());
  }
}

namespace {

// The tokens of several prompts, which arrive in any order on any threads.
class Rendering {
 public:
  Rendering(http::ExchangePtr exchange, Json rendered, std::function<void(Json)> respond)
      : exchange_(std::move(exchange)),
        rendered_(std::move(rendered)),
        n_open_(rendered_.size()),
        respond_(std::move(respond)),
        gone_(exchange_->gone(), [stop = stop_]() mutable { stop.request_stop(); }) {}

  std::stop_token stop_token() const { return stop_.get_token(); }

  // The result of prompt `i`.
  void take(size_t i, const Result<Tokens>& ids) {
    bool is_first_error = false;
    {
      const std::lock_guard lock(mutex_);
      is_first_error = error_.ok() && !ids.ok();
      if (is_first_error) error_ = ids.status();
      if (ids.ok()) rendered_[i]["token_ids"] = *ids;
      if (--n_open_ > 0 && !is_first_error) return;
    }
    if (is_first_error) stop_.request_stop();  // without the lock: may end other prompts within the call
    {
      const std::lock_guard lock(mutex_);
      if (n_open_ > 0 || std::exchange(has_responded_, true)) return;
    }
    answer_or_refuse(*exchange_, [&] {
      if (!error_.ok()) throw fault_of(error_);
      respond_(std::move(rendered_));
    });
  }

 private:
  const http::ExchangePtr exchange_;
  std::mutex mutex_;  // guards the members below, until has_responded_
  Json rendered_;
  size_t n_open_;
  bool has_responded_ = false;
  Status error_;
  const std::function<void(Json)> respond_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> gone_;
};

}  // namespace

void start_rendering(const Site& site, const http::ExchangePtr& exchange, std::string_view id_prefix,
                     std::vector<AnswerRequest> requests, std::function<void(Json rendered)> respond) {
  Json rendered = Json::array();
  for (const AnswerRequest& request : requests) {
    const Result<std::string> model = site.backend->resolve(request.model);
    if (!model.ok()) throw fault_of(model.status());
    rendered.push_back({{"request_id", site.new_id(id_prefix)}, {"model", *model}, {"token_ids", Json::array()}});
  }
  const auto rendering = std::make_shared<Rendering>(exchange, std::move(rendered), std::move(respond));
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto then = [rendering, i](const Result<Tokens>& ids) { rendering->take(i, ids); };
    site.backend->encode_prompt(std::move(requests[i]), then, rendering->stop_token());
  }
}

}  // namespace ibid::serve
