#include "server/service/jobs.h"

#include <algorithm>
#include <vector>

#include "runtime/embedding/embeddings.h"
#include "runtime/prompt/plain_prompt.h"
#include "server/service/generic_calls.h"
#include "server/service/prompt_tokens.h"
#include "server/service/system_messages.h"
#include "server/store/cache_namespace.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/protocol_messages.h"

namespace ibid::serve {

size_t kv_bytes_for(const KvLayout& layout, size_t max_seq_len, const KvNeed& need) {
  const size_t n_read = std::min(need.n_prompt, max_seq_len);
  const size_t n_completion_tokens = std::min(need.n_answer, max_seq_len - n_read);
  // Count one page more for each answer: an answer may begin within the last page of the prompt, of which it needs a
  // copy.
  const size_t n_pages = KvLayout::pages_for(n_read) + KvLayout::pages_for(need.n_dropped) +
                         need.n_answers * (KvLayout::pages_for(n_completion_tokens) + 1);
  const size_t n_states = std::max<size_t>(need.n_answers, 1) * KvLayout::kStatesAtWork;
  return n_pages * layout.page_bytes() + n_states * layout.state_bytes();
}

namespace {

// Returns the approximate length of a value as JSON text, without serialising it.
size_t bytes_of_json(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t n = 8;
  if (value.is_structured()) {
    for (const Json& part : value) n += bytes_of_json(part);
  }
  return n;
}

size_t bytes_of(const std::variant<std::string, Tokens>& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  return std::get<Tokens>(input).size() * sizeof(TokenId);
}

size_t bytes_of_parts(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return text->size();
  if (const auto* ids = std::get_if<Tokens>(&prompt)) return ids->size() * sizeof(TokenId);
  size_t n = 0;
  if (const auto* infill = std::get_if<Infill>(&prompt)) {
    for (const Infill::File& file : infill->files) n += file.name.size() + file.text.size();
    return n + infill->prefix.size() + infill->suffix.size();
  }
  for (const auto& piece : std::get<PromptPieces>(prompt)) n += bytes_of(piece);
  return n;
}

size_t bytes_of_inputs(const EmbeddingRequest& request) {
  size_t n = 0;
  for (const Prompt& input : request.inputs) n += bytes_of_parts(input);
  return n;
}

// Returns the tokens of an input, truncated to `most`; 0: no limit.
Tokens ids_of_input(const Tokenizer& tokenizer, const Prompt& input, size_t most) {
  if (const auto* text = std::get_if<std::string>(&input)) return ids_to_embed(tokenizer, *text, most);
  const auto* pieces = std::get_if<PromptPieces>(&input);
  Tokens ids = pieces != nullptr ? ids_of_pieces(tokenizer, *pieces) : std::get<Tokens>(input);
  if (most != 0 && ids.size() > most) ids.resize(most);
  return ids;
}

// A request for embeddings. A work thread tokenizes its texts. Tasks of the engine (runtime/embedding/embeddings.h)
// then compute the embeddings beside answers.
class EmbeddingJob final : public Job {
 public:
  EmbeddingJob(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token gone,
               std::shared_ptr<Waker> bell, Clock& clock)
      : Job({request.model, std::string(owner_of_namespace(request.cache_namespace)), request.deadline,
             bytes_of_inputs(request), request.keep_alive},
            std::move(bell)),
        request_(std::move(request)),
        listener_(std::move(listener)),
        clock_(clock) {
    watch(std::move(gone));
  }
  ~EmbeddingJob() override { end_watch(); }

  Status prepare(const Place& place) override;
  KvRoom room(const Engine& engine, size_t expected_answer) const override;
  Status plan(const Place& place) override;
  Next advance(Conversations& conversations) override;
  void leave_queue(std::chrono::nanoseconds waited) override;
  void refuse(const Status& busy, std::chrono::seconds retry_after) override;
  void end(const Status& status) override;

 private:
  EmbeddingRequest request_;
  std::shared_ptr<EmbeddingListener> listener_;  // null: the result was sent
  Clock& clock_;
  std::unique_ptr<Embeddings> embeddings_;  // set while the engine computes
  EmbeddingReply reply_;
  int64_t start_ns_ = 0;
  std::vector<Tokens> texts_;
  size_t longest_ = 0;  // number of tokens of the longest text
};

KvRoom EmbeddingJob::room(const Engine& engine, size_t /*expected_answer*/) const {
  return {.engine = &engine,
          .n_bytes = Embeddings::most_bytes(engine.state(), longest_),
          .budget_bytes = engine.state().pool().budget_bytes()};
}

Status EmbeddingJob::prepare(const Place& place) try {
  reply_.model = place.model;
  start_ns_ = clock_.steady_ns();
  const size_t most = request_.cuts ? place.engine()->max_seq_len() : 0;
  for (const Prompt& input : request_.inputs) {
    if (is_stopped()) return why_stopped();
    texts_.push_back(ids_of_input(place.engine()->state().tokenizer(), input, most));
    longest_ = std::max(longest_, texts_.back().size());
    reply_.n_prompt += texts_.back().size();
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status EmbeddingJob::plan(const Place& place) try {
  TRY_ASSIGN(embeddings_, Embeddings::begin(place.engine()->state(), texts_,
                                            {.n_dims = request_.n_dims, .stop = stop_token()}, bell()));
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Job::Next EmbeddingJob::advance(Conversations& /*conversations*/) {
  if (!embeddings_->advance()) return Next::kWait;
  Result<std::vector<std::vector<float>>> vectors = embeddings_->finish();
  embeddings_.reset();
  status_ = vectors.status();
  if (!vectors.ok()) return status_.code() == ErrorCode::kOutOfMemory ? Next::kRetry : Next::kOver;
  usage_.n_prompt = usage_.n_prefilled = reply_.n_prompt;
  reply_.vectors = *std::move(vectors);
  return Next::kLongEnd;
}

void EmbeddingJob::leave_queue(std::chrono::nanoseconds waited) {
  if (reply_.queued.count() == 0) reply_.queued = waited;
}

void EmbeddingJob::refuse(const Status& busy, std::chrono::seconds retry_after) {
  if (const auto listener = std::exchange(listener_, nullptr)) listener->fail(busy, retry_after);
}

void EmbeddingJob::end(const Status& status) {
  const auto listener = std::exchange(listener_, nullptr);
  if (listener == nullptr) return;
  if (!status.ok()) {
    const bool was_stopped = status.code() == ErrorCode::kCancelled && is_stopped();
    return listener->fail(was_stopped ? why_stopped() : status, std::chrono::seconds(1));
  }
  reply_.computed = std::chrono::nanoseconds(clock_.steady_ns() - start_ns_);
  listener->reply(std::move(reply_));
}

}  // namespace

std::unique_ptr<Job> make_embedding_job(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                                        std::stop_token gone, std::shared_ptr<Waker> bell, Clock& clock) {
  return std::make_unique<EmbeddingJob>(std::move(request), std::move(listener), std::move(gone), std::move(bell),
                                        clock);
}

Json variables_for(const AnswerRequest& request) {
  Json variables = request.variables.is_object() ? request.variables : Json::object();
  if (!request.tools.is_null() && !request.tools.empty()) variables["tools"] = request.tools;
  return variables;
}

namespace {

Result<TemplateVariables> template_variables(const Engine& engine, const AnswerRequest& request) {
  TRY(engine.state().check_answers());
  const ChatTemplate* chat_template = engine.state().chat_template();
  if (chat_template == nullptr) return {ErrorCode::kUnsupported, engine.name() + " has no chat template"};
  TemplateVariables variables;
  variables.values = chat_template->default_variables();
  variables.values.update(variables_for(request));
  return variables;
}

// Renders the prompt of a request that continues its last message.
Result<MarkedText> rendered_to_continue(const Engine& engine, const AnswerRequest& request) {
  TRY_ASSIGN(TemplateVariables variables, template_variables(engine, request));
  variables.values["add_generation_prompt"] = false;
  Json messages = messages_for_template(request.messages, engine.state().reply_format());
  TRY_ASSIGN(const std::string content, append_continue_tag(messages.back()));
  TRY_ASSIGN(const MarkedText render, engine.state().chat_template()->render(messages, variables));
  TRY_ASSIGN(ContinuedText text, cut_at_continue_tag(render, content));
  return std::move(text.text);
}

}  // namespace

Result<MarkedText> rendered(const Engine& engine, const AnswerRequest& request, const Json& messages) {
  TRY_ASSIGN(TemplateVariables variables, template_variables(engine, request));
  variables.values["add_generation_prompt"] = request.adds_generation_prompt;
  return engine.state().chat_template()->render(messages_for_template(messages, engine.state().reply_format()),
                                                variables);
}

Status prepare_messages(const Engine& engine, AnswerRequest& request) {
  describe_tools(engine, request);
  return place_system_messages(engine, request);
}

Result<MarkedText> prompt_text(const Engine& engine, AnswerRequest& request) {
  TRY(tokenize_prompt(engine, request.prompt));
  if (request.prompt) {
    if (const auto* text = std::get_if<std::string>(&*request.prompt)) return MarkedText(*text, TextOrigin::kTemplate);
    return MarkedText(engine.state().tokenizer().decode(std::get<Tokens>(*request.prompt)), TextOrigin::kTemplate);
  }
  TRY(prepare_messages(engine, request));
  if (request.continues) return rendered_to_continue(engine, request);
  Result<MarkedText> text = rendered(engine, request, request.messages);
  const bool again = !text.ok() && is_refusal(text.status().code()) && join_system_to_user(request);
  return again ? rendered(engine, request, request.messages) : std::move(text);
}

Result<size_t> count_prompt_ids(const Engine& engine, AnswerRequest& request) {
  TRY(tokenize_prompt(engine, request.prompt));
  if (request.prompt) {
    const auto* text = std::get_if<std::string>(&*request.prompt);
    const Json message = text != nullptr ? plain_message(*text) : plain_message(std::get<Tokens>(*request.prompt));
    TRY_ASSIGN(const PromptDelta plan,
               plan_plain_prompt(engine.state().tokenizer(), Json::array({message}), Transcript()));
    return plan.n_prompt;
  }
  TRY_ASSIGN(const MarkedText text, prompt_text(engine, request));
  return engine.state().tokenizer().encode_marked(text).size();
}

size_t bytes_of_prompt(const AnswerRequest& request) {
  if (!request.prompt) return bytes_of_json(request.messages) + bytes_of_json(request.tools);
  return bytes_of_parts(*request.prompt);
}

}  // namespace ibid::serve
