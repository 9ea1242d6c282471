// Random grammars over few characters, in which every rule matches a text and no rule is left-recursive; and random
// vocabularies of these characters.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "grammar/grammar_rules.h"
#include "grammar/token_trie.h"

namespace ibid {

// Rule i may call any rule after it has read a byte, but before that only later rules. So no rule is left-recursive.
class RandomGrammar {
 public:
  // wide: with large sets of characters and large counts, which the reference is too slow for.
  explicit RandomGrammar(uint64_t seed, bool wide = false) : wide_(wide), random_(seed) {
    const size_t n = 1 + pick(4);
    for (size_t i = 0; i < n; ++i) rules_.add_rule("r" + std::to_string(i));
    for (size_t i = 0; i < n; ++i) {
      const ExprId way_out = rules_.bytes(std::string(1, letter()));  // so that every rule matches a text
      rules_.define(static_cast<RuleId>(i), rules_.choice({way_out, expr(i, 3, false)}));
    }
  }
  const GrammarRules& rules() const { return rules_; }

  // All single bytes that the grammars use, and longer tokens.
  std::vector<TokenTexts::Token> vocabulary() {
    std::vector<TokenTexts::Token> out;
    for (const char c : std::string("ab\"\xC3\xA9\xA8\xE2\x82\xAC")) out.push_back({std::string(1, c), "", false});
    const std::vector<std::string> pieces = {"a", "b", "\"", "é", "è", "€", "\xC3", "\xA9", "\xE2\x82", "\xAC"};
    for (size_t i = 0; i < 60; ++i) {
      std::string text;
      for (size_t k = 1 + pick(i < 50 ? 5 : 18); k > 0; --k) text += pieces[pick(pieces.size())];
      out.push_back({text, pick(10) == 0 ? text + "a" : "", pick(12) == 0});
    }
    out.push_back({"", "", false});
    return out;
  }
  // All bytes, and tokens of whole, cut and broken characters.
  std::vector<TokenTexts::Token> wide_vocabulary() {
    std::vector<TokenTexts::Token> out;
    for (int byte = 0; byte < 256; ++byte) out.push_back({std::string(1, static_cast<char>(byte)), "", false});
    const std::vector<std::string> pieces = {"a",        "b",    "abab",     "z", "Z",        "7",    "\"",
                                             ", ",       " ",    "\\",       "é", "\xE2\x82", "\xAC", "\xC3",
                                             "\xED\xA0", "\xFF", "\xF0\x9F", "😀", "\n"};
    for (size_t i = 0; i < 400; ++i) {
      std::string text;
      for (size_t k = 1 + pick(i < 350 ? 4 : 18); k > 0; --k) text += pieces[pick(pick(2) == 0 ? 5 : pieces.size())];
      out.push_back({text, "", false});
    }
    return out;
  }
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

 private:
  char letter() { return "ab\""[pick(3)]; }

  // behind: a byte was read before this expression.
  ExprId expr(size_t rule, size_t depth, bool behind) {
    switch (pick(depth == 0 ? 3 : 9)) {
      case 0: return rules_.bytes(pick(2) == 0 ? std::string(1, letter()) : std::string{letter(), letter()});
      case 1: return rules_.chars(CodePointSet::of(pick(2) == 0 ? 'a' : 0xE8, pick(2) == 0 ? 0xE8 : 0xE9));
      case 2: {
        if (wide_) return rules_.chars(wide_set());
        CodePointSet set = CodePointSet::of('a', pick(2) == 0 ? 'a' : 'b');
        if (pick(2) == 0) set.add(0x20AC);
        return rules_.chars(set);
      }
      case 3: return rules_.sequence({expr(rule, depth - 1, behind), expr(rule, depth - 1, behind)});
      case 4: return rules_.sequence({rules_.bytes(std::string(1, letter())), expr(rule, depth - 1, true)});
      case 5: return rules_.choice({expr(rule, depth - 1, behind), expr(rule, depth - 1, behind)});
      case 6: {
        const auto min = static_cast<uint32_t>(pick(3));
        const uint32_t max = pick(2) == 0 ? kUnbounded : min + static_cast<uint32_t>(pick(pick(4) == 0 ? 30 : 3));
        if (wide_ && pick(2) == 0) {
          const auto begin = static_cast<uint32_t>(pick(40));
          return rules_.repeat(rules_.chars(wide_set()), begin, max == kUnbounded ? max : begin + max);
        }
        return rules_.repeat(expr(rule, depth - 1, behind), min, max);
      }
      case 7: {
        ExprGraph graph;
        graph.n_states = 3;  // every state leads to the last one, because the reference does not detect dead ends
        graph.add_edge(0, expr(rule, depth - 1, behind), 1);
        graph.add_edge(1, expr(rule, depth - 1, behind), 2);
        graph.add_edge(static_cast<uint32_t>(pick(3)), expr(rule, depth - 1, behind), static_cast<uint32_t>(pick(3)));
        graph.finals = {2};
        if (pick(2) == 0) graph.finals.push_back(static_cast<uint32_t>(pick(2)));
        return rules_.graph(graph);
      }
      default: {
        if (behind) return rules_.call(static_cast<RuleId>(pick(rules_.n_rules())));
        const size_t later = rules_.n_rules() - rule - 1;
        return later == 0 ? rules_.empty() : rules_.call(static_cast<RuleId>(rule + 1 + pick(later)));
      }
    }
  }

  CodePointSet wide_set() {
    switch (pick(4)) {
      case 0: return CodePointSet::of('a', 'z');
      case 1: return CodePointSet::of('"').complement();
      case 2: return CodePointSet::of(pick(2) == 0 ? 0x80 : 0x800, kLastCodePoint);
      default: return CodePointSet::of(' ', 0x20AC).without(CodePointSet::of('\\'));
    }
  }

  const bool wide_;
  std::mt19937_64 random_;
  GrammarRules rules_;
};

}  // namespace ibid
