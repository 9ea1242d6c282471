// The syntax trees of regular expressions in both dialects, and the error of each mistake with its place.
#include "base/regex/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ibid {
namespace {

// Sets with more than three ranges as their number of ranges; "*" for bytes that are not UTF-8.
std::string shown(const CodePointSet& set) {
  std::string out;
  if (set.ranges().size() > 3)
    return "<" + std::to_string(set.ranges().size()) + (set.has_invalid_bytes() ? "*>" : ">");
  for (const auto& [first, last] : set.ranges()) {
    const auto one = [](uint32_t c) {
      return c > ' ' && c < 0x7F ? std::string(1, static_cast<char>(c)) : std::to_string(c);
    };
    out += (out.empty() ? "" : ",") + one(first) + (first == last ? "" : "-" + one(last));
  }
  const bool is_one = set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  return is_one && set.ranges()[0].first > ' ' && out.size() == 1 ? out
                                                                  : "<" + out + (set.has_invalid_bytes() ? "*>" : ">");
}

std::string shown(const RegexNode& node) {
  using Kind = RegexNode::Kind;
  std::string parts;
  for (const RegexNode& part : node.parts) parts += (parts.empty() ? "" : " ") + shown(part);
  switch (node.kind) {
    case Kind::kEmpty: return "()";
    case Kind::kSet: return shown(node.set);
    case Kind::kSequence: return "(" + parts + ")";
    case Kind::kChoice: return "(or " + parts + ")";
    case Kind::kRepeat: {
      const char* mode = node.mode == RegexNode::Mode::kLazy         ? "lazy "
                         : node.mode == RegexNode::Mode::kPossessive ? "possessive "
                                                                     : "";
      const std::string max = node.max == RegexNode::kUnbounded ? "" : std::to_string(node.max);
      return "(" + std::to_string(node.min) + "-" + max + " " + mode + parts + ")";
    }
    case Kind::kLook: return (node.wanted ? "(look " : "(look-not ") + parts + ")";
    case Kind::kBegin: return "^";
    case Kind::kEnd: return "$";
    case Kind::kWordBoundary: return "\\b";
  }
  return "?";
}

std::string parsed(std::string_view pattern, RegexDialect dialect) {
  const Result<RegexNode> root = parse_regex(pattern, dialect);
  return root.ok() ? shown(*root) : root.status().message();
}

TEST(RegexTest, CommonSyntaxGivesTheSameTreeInAllDialects) {
  for (const auto& [pattern, tree] : std::vector<std::pair<std::string, std::string>>{
           {"", "()"},
           {"ab|c|", "(or (a b) c ())"},
           {"a(?:b|(c))d", "(a (or b c) d)"},
           {"a*b+?c?+", "((0- a) (1- lazy b) (0-1 possessive c))"},
           {"a{2}b{3,}c{4,5}", "((2-2 a) (3- b) (4-5 c))"},
           {"a{0}(b{0,0})*c", "c"},
           {"()*(?:)+", "()"},
           {"^a(?=b)(?!c)\\b$", "(^ a (look b) (look-not c) \\b $)"},
           {"[a-c\\-x]", "<-,a-c,x>"},
           {"[^\\n]", "<0-9,11-55295,57344-1114111*>"},
           {"[\\b\\cA-\\cC]", "<1-3,8>"},
           {"\\x41\\u00e9\\.\\é", "(A <233> . <233>)"},
           {"\\ud83d\\ude00", "<128512>"},
           {"\\p{Zl}\\P{Zl}", "(<8232> <0-8231,8233-55295,57344-1114111*>)"},
           {"\\p{Line_Separator}", "<8232>"},
           {"]}", "(] })"},
       }) {
    EXPECT_EQ(parsed(pattern, RegexDialect::kEcmaScript), tree) << pattern;
    EXPECT_EQ(parsed(pattern, RegexDialect::kOniguruma), tree) << pattern;
  }
}

TEST(RegexTest, SyntaxOfOneDialectIsParsedOnlyInThatDialect) {
  struct Row {
    std::string pattern, ecma_script, oniguruma;
  };
  const auto refused = [](const std::string& what, int at) {
    return what + ", which is not supported, at byte " + std::to_string(at) + " of the pattern";
  };
  const auto wrong = [](const std::string& what, int at) {
    return what + " at byte " + std::to_string(at) + " of the pattern";
  };
  const std::string flags = " (flags, a name, a condition or the like)",
                    not_character = "an escape that is not a character";
  for (const auto& [pattern, ecma_script, oniguruma] : std::vector<Row>{
           {"\\d\\w", "(<0-9> <4>)", ""},
           {"[\\w]", "<4>", ""},
           {".", "<5*>", "<0-9,11-55295,57344-1114111*>"},
           {"[]a", "(<> a)", refused("an empty set", 1)},
           {"[a[b]", "<[,a-b>", wrong("a class without an end ]", 5)},
           {"[a[b]]", "(<[,a-b> ])", "<a-b>"},
           {"[ab&&[^b]]", "(<4> ])", "a"},
           {"[\\d-a]", wrong("a range that begins with a class", 3), ""},
           {"a{,3}", "(a { , 3 })", "(0-3 a)"},
           {"a{x", "(a { x)", wrong("a { that is not a count", 1)},
           {"a{2}+", "(2-2 possessive a)", "(1- (2-2 a))"},
           {"a{1001}", "(1001-1001 a)", wrong("a count above 1000", 1)},
           {"(?<n>a)", "a", refused("a group that begins with '(?<'" + flags, 1)},
           {"x(?i:k)", refused("a group that begins with '(?i'" + flags, 2), "(x <K,k,8490>)"},
           {"\\u{41}", "A", wrong(not_character, 2)},
           {"\\x{41}", wrong(not_character, 2), "A"},
           {"\\xe9", "<233>", refused("\\x above 7F", 4)},
           {"\\0", "<0>", refused("\\0", 1)},
           {"\\p{^Zl}", refused("the class '\\p{^Zl}'", 3), "<0-8231,8233-55295,57344-1114111*>"},
           {"\\p{gc=Zl}", "<8232>", refused("the class '\\p{gc=Zl}'", 3)},
       }) {
    if (!ecma_script.empty()) {
      EXPECT_EQ(parsed(pattern, RegexDialect::kEcmaScript), ecma_script) << pattern;
    }
    if (!oniguruma.empty()) {
      EXPECT_EQ(parsed(pattern, RegexDialect::kOniguruma), oniguruma) << pattern;
    }
  }
}

TEST(RegexTest, CharacterClassesFollowTheDialect) {
  const auto has = [](std::string_view pattern, RegexDialect dialect, uint32_t c) {
    const Result<RegexNode> root = parse_regex(pattern, dialect);
    return root.ok() && root->set.has(c);
  };
  struct Row {
    const char* pattern;
    uint32_t c;
    bool ecma_script, oniguruma;
  };
  for (const auto& [pattern, c, ecma_script, oniguruma] : std::vector<Row>{{"\\s", 0x85, false, true},
                                                                           {"\\s", 0xFEFF, true, false},
                                                                           {"\\S", 0xFEFF, false, true},
                                                                           {"\\s", 0x2028, true, true},
                                                                           {"\\d", 0x663, false, true},
                                                                           {"\\w", 0xE9, false, true},
                                                                           {"\\w", 0xB2, false, true},
                                                                           {"[\\w]", 0xB2, false, false},
                                                                           {"[\\W]", 0xB2, true, true},
                                                                           {"\\w", 0x200D, false, false},
                                                                           {".", 0x2028, false, true},
                                                                           {".", '\r', false, true},
                                                                           {"\\p{Lu}", 'A', true, true},
                                                                           {"\\p{LC}", 0x1C5, true, true},
                                                                           {"\\p{Han}", 0x4E00, true, true},
                                                                           {"\\P{Han}", 0x4E00, false, false}}) {
    EXPECT_EQ(has(pattern, RegexDialect::kEcmaScript, c), ecma_script) << pattern << c;
    EXPECT_EQ(has(pattern, RegexDialect::kOniguruma, c), oniguruma) << pattern << c;
  }
}

TEST(RegexTest, HostilePatternsAreParsedOrRefusedWithinTheLimits) {
  const auto repeated = [](std::string_view text, size_t n) {
    std::string out;
    for (; n > 0; --n) out += text;
    return out;
  };
  for (const RegexDialect dialect : {RegexDialect::kEcmaScript, RegexDialect::kOniguruma}) {
    const auto code = [&](const std::string& pattern) { return parse_regex(pattern, dialect).status().code(); };
    EXPECT_EQ(code(std::string(kMaxRegexBytes, 'a')), ErrorCode::kOk);
    EXPECT_EQ(code(std::string(kMaxRegexBytes + 1, 'a')), ErrorCode::kLimitExceeded);
    EXPECT_EQ(code(std::string(kMaxRegexBytes, '|')), ErrorCode::kOk);
    const size_t deepest = kMaxRegexDepth;
    EXPECT_EQ(code(std::string(deepest, '(') + std::string(deepest, ')')), ErrorCode::kOk);
    EXPECT_EQ(code(std::string(deepest + 1, '(') + std::string(deepest + 1, ')')), ErrorCode::kLimitExceeded);
    EXPECT_EQ(code(repeated("(?=", kMaxRegexBytes / 3)), ErrorCode::kLimitExceeded);
    EXPECT_EQ(code(repeated("\\p{L}", kMaxRegexBytes / 5)), ErrorCode::kLimitExceeded);
    EXPECT_EQ(code('[' + repeated("\\p{L}", kMaxRegexBytes / 5 - 1) + ']'), ErrorCode::kOk);
    EXPECT_EQ(code("a{99999999999999999999}"), ErrorCode::kLimitExceeded);
    EXPECT_EQ(code("\xFF"), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(parse_regex(repeated("[", 200) + repeated("]", 200), RegexDialect::kOniguruma).status().code(),
            ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace ibid
