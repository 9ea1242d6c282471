#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "grammar/byte_automaton.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rules.h"

namespace ibid {

// --- WordAutomaton: finds where any of several words first ends in a text (Aho and Corasick, 1975). Its nodes become
// states of an ExprGraph, for "any text up to this word", or "any text without these words". Immutable.

// By byte: the next state of a graph, or the next node of an automaton; kNowhere if the byte is not allowed.
inline constexpr uint32_t kNowhere = UINT32_MAX;
using ByteTargets = std::array<uint32_t, 256>;
void add_byte_edges(uint32_t from, const ByteTargets& targets, GrammarRules& rules, ExprGraph& graph);

class WordAutomaton {
 public:
  static constexpr size_t kMostBytes = 10'000;  // maximum bytes of all words together
  static constexpr uint32_t kNoWord = UINT32_MAX;

  // REQUIRES: no word is empty; all have kMostBytes in total at most. Node 0 is the beginning of a text.
  explicit WordAutomaton(const std::vector<std::string>& words);

  uint32_t n_nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  // Returns the index of the longest word that ends at a node; kNoWord if no word ends there.
  uint32_t word_at(uint32_t node) const { return nodes_[node].word; }
  uint32_t next(uint32_t node, uint8_t byte) const { return nodes_[node].next[byte]; }

  // Adds the nodes and edges to the graph. Returns the state of node 0; the states of the other nodes follow in order.
  // A node at which a word ends has no outgoing edges. It has incoming edges only if `is_open` is true for this word,
  // so the other words do not occur in the texts of the graph.
  uint32_t add_to(ExprGraph& graph, GrammarRules& rules, const std::vector<bool>& is_open) const;

 private:
  struct Node {
    ByteTargets next{};
    uint32_t word = kNoWord;
  };
  void find_longest_words(const std::vector<std::string>& words);

  std::vector<Node> nodes_;
};

// Adds rules for tool calls (RequiredCalls) to a grammar. Not thread-safe.
class CallRules {
 public:
  // `rules` must outlive this object and already have its first rule.
  explicit CallRules(GrammarRules& rules) : rules_(rules) {}

  ExprId call(const RequiredCalls::Call& call);
  // Error: kLimitExceeded if a word of an added call is too long.
  const Status& status() const { return status_; }
  GrammarRules& operator*() { return rules_; }
  GrammarRules* operator->() { return &rules_; }

 private:
  RuleId rule_of(const Grammar& grammar);

  GrammarRules& rules_;
  std::map<const Grammar::Parts*, RuleId> known_;
  Status status_;
};

// Returns an expression for any text that ends with the first occurrence of `words`. If `words` begins with spaces, the
// text also ends with the first occurrence of `words` without these spaces. REQUIRES: check_words().
ExprId text_up_to(const std::string& words, GrammarRules& rules);

// Checks the lengths of words that a grammar searches for. Error: kLimitExceeded if they are too long in total.
Status check_words(const std::vector<std::string>& words);

void add_byte_edges(uint32_t from, const ByteTargets& targets, GrammarRules& rules, ExprGraph& graph) {
  for (size_t first = 0, end = 1; end <= targets.size(); ++end) {
    if (end < targets.size() && targets[end] == targets[first]) continue;
    if (targets[first] != kNowhere) {
      const auto last = static_cast<uint8_t>(end - 1);
      graph.add_edge(from, rules.byte_range(static_cast<uint8_t>(first), last), targets[first]);
    }
    first = end;
  }
}

WordAutomaton::WordAutomaton(const std::vector<std::string>& words) : nodes_(1) {
  find_longest_words(words);
  // Process nodes breadth first, so that the fallback node of a node is processed before it is needed.
  std::vector<uint32_t> fallback(nodes_.size(), 0), order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t at = order[i], back = fallback[at];
    if (nodes_[at].word == kNoWord && at != 0) nodes_[at].word = nodes_[back].word;
    for (size_t byte = 0; byte < 256; ++byte) {
      uint32_t& next = nodes_[at].next[byte];
      const uint32_t otherwise = at == 0 ? 0 : nodes_[back].next[byte];
      if (next == 0) {
        next = otherwise;
      } else {
        fallback[next] = otherwise;
        order.push_back(next);
      }
    }
  }
}

// Builds the trie of the words. A child of 0 means "no child", because no edge of a trie leads to the root.
void WordAutomaton::find_longest_words(const std::vector<std::string>& words) {
  size_t n_bytes = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    CHECK(!words[i].empty() && (n_bytes += words[i].size()) <= kMostBytes);
    uint32_t at = 0;
    for (const char c : words[i]) {
      const auto byte = static_cast<uint8_t>(c);
      if (nodes_[at].next[byte] == 0) {
        nodes_[at].next[byte] = n_nodes();
        nodes_.emplace_back();
      }
      at = nodes_[at].next[byte];
    }
    nodes_[at].word = static_cast<uint32_t>(i);
  }
}

uint32_t WordAutomaton::add_to(ExprGraph& graph, GrammarRules& rules, const std::vector<bool>& is_open) const {
  const uint32_t base = graph.n_states;
  graph.n_states += n_nodes();
  for (uint32_t i = 0; i < n_nodes(); ++i) {
    if (nodes_[i].word != kNoWord) continue;
    ByteTargets targets{};
    for (size_t byte = 0; byte < targets.size(); ++byte) {
      const uint32_t next = nodes_[i].next[byte], word = nodes_[next].word;
      targets[byte] = word == kNoWord || is_open[word] ? base + next : kNowhere;
    }
    add_byte_edges(base + i, targets, rules, graph);
  }
  return base;
}

// --- Tool calls and other constrained parts of answers, after reasoning. Special tokens are allowed only in the first
// rule of a grammar, so words that may be special tokens are part of this rule. Only the grammars inside calls become
// rules of their own.

namespace {

// Maximum number of calls in an answer, because some models would write calls without end.
constexpr size_t kMostCalls = 16;
// Maximum states of all calls in an answer. Each call has states of its own, so fewer large calls are allowed.
constexpr size_t kMostCallStates = 200'000;

size_t n_states_of(const RequiredCalls::Call& call) {
  size_t n = 0;
  for (const RequiredCalls::Piece& piece : call) {
    n += 1 + piece.words.size() + 4 * piece.text_up_to.size();
    for (const RequiredCalls::Call& one : piece.one_of) n += n_states_of(one);
  }
  return n;
}

size_t n_states_of_any(const RequiredCalls& demanded) {
  size_t n = 1 + demanded.separator.size();
  for (const RequiredCalls::Call& call : demanded.calls) n += n_states_of(call);
  return n;
}

ExprId spaces(GrammarRules& rules, uint32_t most) {
  return rules.repeat(rules.choice({rules.bytes(" "), rules.bytes("\n")}), 0, most);
}

ExprId reasoning(const Preamble& lead, GrammarRules& rules) {
  if (lead.end.empty()) return rules.empty();
  const ExprId rest = rules.sequence({text_up_to(lead.end, rules), spaces(rules, 2)});
  if (lead.is_open) return rest;
  return lead.begin.empty() ? rules.empty() : rules.optional(rules.sequence({rules.bytes(lead.begin), rest}));
}

// Returns an expression for one call, or if several calls are allowed, for up to kMostCalls calls with separators
// between them.
ExprId section(const RequiredCalls& demanded, CallRules& rules) {
  std::vector<ExprId> calls;
  for (const RequiredCalls::Call& call : demanded.calls) calls.push_back(rules.call(call));
  const ExprId call = rules->choice(calls);
  if (!demanded.several) return rules->sequence({call, rules->bytes(demanded.end)});
  const size_t n_most = std::clamp<size_t>(kMostCallStates / n_states_of_any(demanded), 1, kMostCalls);
  ExprGraph graph;  // state i is reached after i calls
  for (uint32_t i = 0; i < n_most; ++i) {
    const ExprId next = i == 0 ? call : rules->sequence({rules->bytes(demanded.separator), call});
    graph.finals.push_back(graph.add_state());
    graph.add_edge(i, next, i + 1);
  }
  // Allow line breaks after the end: if line breaks separate calls, a model may write one more after the last call.
  return rules->sequence({rules->graph(std::move(graph)), rules->bytes(demanded.end), spaces(*rules, 2)});
}

}  // namespace

ExprId text_up_to(const std::string& words, GrammarRules& rules) {
  std::vector<std::string> all = {words};
  const size_t solid = words.find_first_not_of(" \n");
  // Forbids `words` without its spaces.
  if (solid != std::string::npos && solid > 0) all.push_back(words.substr(solid));
  const WordAutomaton automaton(all);
  ExprGraph graph;
  graph.n_states = 0;
  automaton.add_to(graph, rules, {true, false});
  for (uint32_t i = 0; i < automaton.n_nodes(); ++i) {
    if (automaton.word_at(i) == 0) graph.finals.push_back(i);
  }
  return rules.graph(std::move(graph));
}

ExprId CallRules::call(const RequiredCalls::Call& call) {
  std::vector<ExprId> parts;
  for (const RequiredCalls::Piece& piece : call) {
    if (!piece.words.empty()) parts.push_back(rules_.bytes(piece.words));
    if (piece.grammar) parts.push_back(rules_.call(rule_of(*piece.grammar)));
    if (Status words = check_words({piece.text_up_to, piece.text_up_to}); !words.ok()) {
      status_ = std::move(words);
    } else if (!piece.text_up_to.empty()) {
      parts.push_back(text_up_to(piece.text_up_to, rules_));
    }
    if (piece.one_of.empty()) continue;
    std::vector<ExprId> alternatives;
    for (const RequiredCalls::Call& one : piece.one_of) alternatives.push_back(this->call(one));
    const ExprId one = rules_.choice(alternatives);
    parts.push_back(piece.repeats ? rules_.repeat(one, 0, kUnbounded) : one);
  }
  return rules_.sequence(parts);
}

// Returns the first rule of `grammar`, whose rules are added to rules_ at the first call only.
RuleId CallRules::rule_of(const Grammar& grammar) {
  const auto [found, is_new] = known_.emplace(&grammar.parts(), 0);
  if (is_new) found->second = rules_.append(grammar.parts().rules);
  return found->second;
}

Status check_words(const std::vector<std::string>& words) {
  size_t n_bytes = 0;
  for (const std::string& word : words) n_bytes += word.size();
  if (n_bytes <= WordAutomaton::kMostBytes) return {};
  return {ErrorCode::kLimitExceeded,
          "markers of reasoning and calls: more than " + std::to_string(WordAutomaton::kMostBytes) + " bytes in all"};
}

namespace {

// As compile_calls(). ignored: value of Grammar::ignored() of the result.
Result<Grammar> compile_section(const RequiredCalls& demanded, std::vector<std::string> ignored) {
  if (demanded.calls.empty()) return {ErrorCode::kInvalidArgument, "calls: the list is empty"};
  // `end` counts twice: text_up_to() uses it twice.
  TRY(check_words({demanded.lead.begin, demanded.lead.end, demanded.lead.end}));
  GrammarRules rules;
  CallRules calls(rules);
  const RuleId root = rules.add_rule("calls");
  std::vector<ExprId> alternatives = {rules.sequence({rules.bytes(demanded.lead.opening), section(demanded, calls)})};
  if (demanded.otherwise) alternatives.push_back(calls.call({*demanded.otherwise}));
  TRY(calls.status());
  rules.define(root, rules.sequence({reasoning(demanded.lead, rules), rules.choice(alternatives)}));
  return make_grammar(std::move(rules), "calls", true, std::move(ignored));
}

}  // namespace

Result<Grammar> compile_calls(const RequiredCalls& demanded) {
  const bool has_format = demanded.otherwise && demanded.otherwise->grammar;
  return compile_section(demanded, has_format ? demanded.otherwise->grammar->ignored() : std::vector<std::string>());
}

Result<Grammar> compile_after(const Preamble& lead, const Grammar& grammar) {
  return compile_section({.lead = lead, .calls = {{{.grammar = grammar}}}}, grammar.ignored());
}

// --- Any text, in which certain words begin tool calls. The graph of the text is part of the first rule.

namespace {

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

// Words that begin a call only at the start of the text, as a trie. Spaces may precede a word, and follow its { or [.
struct FrontTree {
  struct Node {
    ByteTargets child;
    bool takes_spaces = false;
    uint32_t anywhere_state =
        0;                    // state of the automaton `anywhere`, which finds the other words, after the same bytes
    size_t begin = SIZE_MAX;  // index in `begins` of the word that ends here; SIZE_MAX: no word ends here
  };
  std::vector<Node> nodes;

  FrontTree(const CallsInText& text, const WordAutomaton& anywhere) {
    add_node(0, true);
    for (size_t i = 0; i < text.begins.size(); ++i) {
      if (!text.begins[i].only_at_beginning) continue;
      uint32_t at = 0;
      for (const char c : text.begins[i].word) {
        const auto byte = static_cast<uint8_t>(c);
        if (nodes[at].child[byte] == kNowhere) {
          nodes[at].child[byte] = static_cast<uint32_t>(nodes.size());
          add_node(anywhere.next(nodes[at].anywhere_state, byte), c == '{' || c == '[');
        }
        at = nodes[at].child[byte];
      }
      nodes[at].begin = i;
    }
  }

 private:
  void add_node(uint32_t anywhere_state, bool takes_spaces) {
    nodes.push_back({.child = {}, .takes_spaces = takes_spaces, .anywhere_state = anywhere_state});
    nodes.back().child.fill(kNowhere);
  }
};

class TextGraph {
 public:
  explicit TextGraph(const CallsInText& text, GrammarRules& rules)
      : text_(text), rules_(rules), calls_(rules), anywhere_(words_of(text)) {
    for (size_t i = 0; i < text.begins.size(); ++i) {
      if (text.begins[i].only_at_beginning) continue;
      begin_of_word_.push_back(i);
      is_open_.push_back(text.begins[i].rest.has_value());
    }
  }

  Result<ExprId> graph() {
    free_ = add_free_text(is_open_);
    after_ = text_.several ? free_ : add_free_text(std::vector<bool>(is_open_.size(), false));
    for (uint32_t i = 0; i < anywhere_.n_nodes(); ++i) {
      const uint32_t word = anywhere_.word_at(i);
      if (word != WordAutomaton::kNoWord) add_rest(free_ + i, begin_of_word_[word]);
    }
    add_lead(add_front());
    TRY(calls_.status());
    return rules_.graph(std::move(graph_));
  }

  static std::vector<std::string> words_of(const CallsInText& text) {
    std::vector<std::string> words;
    for (const CallsInText::Begin& begin : text.begins) {
      if (!begin.only_at_beginning) words.push_back(begin.word);
    }
    return words;
  }

 private:
  uint32_t add_free_text(const std::vector<bool>& is_open) {
    const uint32_t base = anywhere_.add_to(graph_, rules_, is_open);
    for (uint32_t i = 0; i < anywhere_.n_nodes(); ++i) {
      if (anywhere_.word_at(i) == WordAutomaton::kNoWord) graph_.finals.push_back(base + i);
    }
    return base;
  }

  void add_rest(uint32_t from, size_t i) {
    const CallsInText::Begin& begin = text_.begins[i];
    if (!begin.rest) return;
    uint32_t to = after_;
    if (begin.ends) {
      graph_.finals.push_back(to = graph_.add_state());
      graph_.add_edge(to, blank(), to);
    }
    graph_.add_edge(from, calls_.call(*begin.rest), to);
  }

  ExprId blank() {
    std::vector<ExprId> blanks;
    for (const char* one : {" ", "\n", "\t", "\r"}) blanks.push_back(rules_.bytes(one));
    return rules_.choice(blanks);
  }

  // Adds the states for the beginning of the text, where the words of FrontTree may be, and returns the first of them.
  uint32_t add_front() {
    const FrontTree tree(text_, anywhere_);
    if (tree.nodes.size() == 1) return free_;
    const uint32_t base = graph_.n_states;
    graph_.n_states += static_cast<uint32_t>(tree.nodes.size());
    for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
      const FrontTree::Node& node = tree.nodes[i];
      if (node.begin != SIZE_MAX) {
        add_rest(base + i, node.begin);
        continue;
      }
      graph_.finals.push_back(base + i);
      ByteTargets targets{};
      for (size_t byte = 0; byte < targets.size(); ++byte) {
        const uint32_t child = node.child[byte];
        const uint32_t next = anywhere_.next(node.anywhere_state, static_cast<uint8_t>(byte));
        const uint32_t word = anywhere_.word_at(next);
        targets[byte] = child != kNowhere                                           ? base + child
                        : node.takes_spaces && is_space(static_cast<uint8_t>(byte)) ? base + i
                        : word == WordAutomaton::kNoWord || is_open_[word]          ? free_ + next
                                                                                    : kNowhere;
      }
      add_byte_edges(base + i, targets, rules_, graph_);
    }
    return base;
  }

  // Adds the states of the reasoning, which leads to the state `content`. Reasoning may contain any words, and the
  // answer may end inside it.
  void add_lead(uint32_t content) {
    const Preamble& lead = text_.lead;
    if (!lead.is_open || lead.end.empty()) graph_.add_edge(0, rules_.empty(), content);
    if (lead.end.empty() || (lead.begin.empty() && !lead.is_open)) return;
    const WordAutomaton end({lead.end});
    const uint32_t base = end.add_to(graph_, rules_, {true});
    for (uint32_t i = 0; i < end.n_nodes(); ++i) {
      if (end.word_at(i) == WordAutomaton::kNoWord) {
        graph_.finals.push_back(base + i);
      } else {
        graph_.add_edge(base + i, rules_.empty(), content);
      }
    }
    if (lead.is_open) return graph_.add_edge(0, rules_.empty(), base);
    const ExprId blanks = rules_.repeat(blank(), 0, kUnbounded);
    graph_.add_edge(0, rules_.sequence({blanks, rules_.bytes(lead.begin)}), base);
  }

  const CallsInText& text_;
  GrammarRules& rules_;
  CallRules calls_;
  const WordAutomaton anywhere_;
  std::vector<size_t> begin_of_word_;
  std::vector<bool> is_open_;
  ExprGraph graph_;
  uint32_t free_ = 0, after_ = 0;
};

}  // namespace

Result<Grammar> compile_calls_in_text(const CallsInText& text) {
  std::vector<std::string> words = {text.lead.begin, text.lead.end};
  for (const CallsInText::Begin& begin : text.begins) {
    if (begin.word.empty()) return {ErrorCode::kInvalidArgument, "calls: an opening marker is empty"};
    words.push_back(begin.word);
  }
  TRY(check_words(words));
  GrammarRules rules;
  const RuleId root = rules.add_rule("text");
  TRY_ASSIGN(const ExprId graph, TextGraph(text, rules).graph());
  rules.define(root, graph);
  return make_grammar(std::move(rules), "calls", true);
}

}  // namespace ibid
