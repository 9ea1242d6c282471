#include "tokenizer/chat_template.h"
namespace ibid {
namespace jinja { class Program {}; }
struct ChatTemplate::Parts { std::string source; Json defaults = Json::object(); };
ChatTemplate::ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;
Result<ChatTemplate> ChatTemplate::compile(std::string_view s, const TemplateBudget&) { ChatTemplate t; auto p = std::make_shared<Parts>(); p->source = s; t.parts_ = p; return t; }
Result<ChatTemplate> ChatTemplate::load(const ModelFile&, const TemplateBudget&) { return {ErrorCode::kNotFound, "none"}; }
const std::string& ChatTemplate::source() const { return parts_->source; }
const Json& ChatTemplate::default_variables() const { return parts_->defaults; }
std::string plain_text(const MarkedText& text) { std::string o; for (auto& r : text) o += r.text; return o; }
struct ConversationRenderer::State { bool strip, trim; std::vector<size_t> ends; };
ConversationRenderer::ConversationRenderer(const ChatTemplate& t, TemplateVariables) : state_(new State{t.source().find("think") != std::string::npos, t.source().find("trim") != std::string::npos, {}}) {}
ConversationRenderer::ConversationRenderer(const ConversationRenderer& o) : state_(new State(*o.state_)) {}
ConversationRenderer& ConversationRenderer::operator=(const ConversationRenderer& o) { state_.reset(new State(*o.state_)); return *this; }
ConversationRenderer::ConversationRenderer(ConversationRenderer&&) noexcept = default;
ConversationRenderer& ConversationRenderer::operator=(ConversationRenderer&&) noexcept = default;
ConversationRenderer::~ConversationRenderer() = default;
static void put(MarkedText& t, std::string s, TextOrigin o) { if (s.empty()) return; if (t.empty() || t.back().origin != o) t.push_back({{}, o}); t.back().text += s; }
Result<ConversationRenderer::Delta> ConversationRenderer::render(const Json& m, size_t same, bool gen) {
  Delta d; State& s = *state_;
  size_t from = std::min(same, s.ends.size());
  if (s.strip) from = 0;
  s.ends.resize(from); d.keep_bytes = from ? s.ends.back() : 0; d.resumed = from > 0;
  size_t n = d.keep_bytes;
  for (size_t i = from; i < m.size(); ++i) {
    std::string c = m[i]["content"], role = m[i]["role"];
    if (role == "raise") return {ErrorCode::kTemplateRaise, "no such role"};
    if (s.strip && role == "assistant") { auto p = c.find("</think>"); if (p != std::string::npos) c = c.substr(p + 8); }
    if (s.trim && role == "assistant") while (!c.empty() && (c.back() == '\n' || c.back() == ' ')) c.pop_back();
    put(d.text, "<|im_start|>", TextOrigin::kTemplate); put(d.text, role, TextOrigin::kInput); put(d.text, "\n", TextOrigin::kTemplate);
    put(d.text, c, TextOrigin::kInput); put(d.text, "<|im_end|>\n", TextOrigin::kTemplate);
    n += 12 + role.size() + 1 + c.size() + 11; s.ends.push_back(n); ++d.messages_rendered;
  }
  if (gen) put(d.text, "<|im_start|>assistant\n", TextOrigin::kTemplate);
  d.bytes_rendered = plain_text(d.text).size();
  return d;
}
}
