// Any text in which words begin calls of tools: one graph, in the first rule.
#include <string>
#include <vector>

#include "grammar/call_rules.h"
#include "grammar/grammar_parts.h"
#include "grammar/word_automaton.h"

namespace ibid {
namespace {

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

// The beginning of a text as a tree of words, in which spaces may stand in front and behind brackets.
struct FrontTree {
  struct Node {
    ByteTargets child;
    bool takes_spaces = false;
    uint32_t behind = 0;    // the node of the words that may come anywhere
    size_t begin = SIZE_MAX;  // that ends here
  };
  std::vector<Node> nodes;

  FrontTree(const CallsInText& text, const WordAutomaton& anywhere) {
    add_node(0, true);
    for (size_t i = 0; i < text.begins.size(); ++i) {
      if (!text.begins[i].in_front) continue;
      uint32_t at = 0;
      for (const char c : text.begins[i].word) {
        const auto byte = static_cast<uint8_t>(c);
        if (nodes[at].child[byte] == kNowhere) {
          nodes[at].child[byte] = static_cast<uint32_t>(nodes.size());
          add_node(anywhere.next(nodes[at].behind, byte), c == '{' || c == '[');
        }
        at = nodes[at].child[byte];
      }
      nodes[at].begin = i;
    }
  }

 private:
  void add_node(uint32_t behind, bool takes_spaces) {
    nodes.push_back({.child = {}, .takes_spaces = takes_spaces, .behind = behind});
    nodes.back().child.fill(kNowhere);
  }
};

class TextGraph {
 public:
  explicit TextGraph(const CallsInText& text, GrammarRules& rules)
      : text_(text), rules_(rules), calls_(rules), anywhere_(words_of(text)) {
    for (size_t i = 0; i < text.begins.size(); ++i) {
      if (text.begins[i].in_front) continue;
      begin_of_word_.push_back(i);
      is_open_.push_back(text.begins[i].rest.has_value());
    }
  }

  Result<ExprId> graph() {
    free_ = add_free_text(is_open_);
    behind_ = text_.several ? free_ : add_free_text(std::vector<bool>(is_open_.size(), false));
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
      if (!begin.in_front) words.push_back(begin.word);
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
    uint32_t to = behind_;
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

  // Returns where the text begins.
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
        const uint32_t next = anywhere_.next(node.behind, static_cast<uint8_t>(byte));
        const uint32_t word = anywhere_.word_at(next);
        targets[byte] = child != kNowhere                                      ? base + child
                        : node.takes_spaces && is_space(static_cast<uint8_t>(byte)) ? base + i
                        : word == WordAutomaton::kNoWord || is_open_[word]     ? free_ + next
                                                                               : kNowhere;
      }
      add_byte_edges(base + i, targets, rules_, graph_);
    }
    return base;
  }

  // What the model thinks may have any words, and may be cut off.
  void add_lead(uint32_t content) {
    const LeadIn& lead = text_.lead;
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
  uint32_t free_ = 0, behind_ = 0;
};

}  // namespace

Result<Grammar> compile_calls_in_text(const CallsInText& text) {
  std::vector<std::string> words = {text.lead.begin, text.lead.end};
  for (const CallsInText::Begin& begin : text.begins) {
    if (begin.word.empty()) return {ErrorCode::kInvalidArgument, "calls: a word with which they begin is empty"};
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
