// GBNF, regular expressions, choices and calls: the texts that they accept, and the error of each mistake.
#include <gtest/gtest.h>

#include "grammar/grammar.h"

namespace ibid {
namespace {

bool accepts(const Result<Grammar>& grammar, std::string_view text) {
  EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
  if (!grammar.ok()) return false;
  const Result<bool> accepted = grammar_accepts(*grammar, text);
  EXPECT_TRUE(accepted.ok()) << accepted.status().to_string();
  return accepted.ok() && *accepted;
}

struct Texts {
  std::string source;
  std::vector<std::string> accepted, others;
};

void expect_texts(Result<Grammar> (*compile)(std::string_view), const std::vector<Texts>& cases) {
  for (const Texts& one : cases) {
    SCOPED_TRACE(one.source);
    const Result<Grammar> grammar = compile(one.source);
    for (const std::string& text : one.accepted) EXPECT_TRUE(accepts(grammar, text)) << text;
    for (const std::string& text : one.others) EXPECT_FALSE(accepts(grammar, text)) << text;
  }
}

struct Mistake {
  std::string source;
  ErrorCode code;
  std::string words;
};

void expect_mistakes(Result<Grammar> (*compile)(std::string_view), const std::vector<Mistake>& cases) {
  for (const Mistake& one : cases) {
    const Result<Grammar> grammar = compile(one.source);
    EXPECT_EQ(grammar.status().code(), one.code) << one.source << ": " << grammar.status().to_string();
    EXPECT_NE(grammar.status().message().find(one.words), std::string::npos)
        << one.source << ": " << grammar.status().message();
  }
}

TEST(RegexGrammarTest, PatternMatchesOnlyWholeTexts) {
  expect_texts(compile_regex,
               {
                   {"", {""}, {"a"}},
                   {"abc", {"abc"}, {"ab", "abcd", "xabc"}},
                   {"^abc$", {"abc"}, {"ab"}},
                   {"a|bc|", {"a", "bc", ""}, {"abc"}},
                   {"(?:ab)+c?", {"ab", "ababc"}, {"", "abb"}},
                   {"(?<year>[0-9]{4})-\\d{2}", {"2024-05"}, {"024-05", "2024-5"}},
                   {"a{2}", {"aa"}, {"a", "aaa"}},
                   {"a{2,}", {"aa", "aaaaaa"}, {"a"}},
                   {"a{1,3}b{0}", {"a", "aaa"}, {"aaaa", "ab", ""}},
                   {"a{,3}", {"a{,3}"}, {"aa"}},
                   {"a*?b", {"b", "aab"}, {"a"}},
                   {".", {"a", "é", "€", "😀", "\t"}, {"", "\n", "ab", "\xFF"}},
                   {"[^a]", {"b", "\n", "😀"}, {"a", "", "\xFF"}},
                   {"(?:^a|b)", {"a", "b"}, {"ab"}},
                   {"(?:(?:^a){0}b)$", {"b"}, {"ab"}},
                   {"[a-cé]+", {"abcé", "é"}, {"d", "\xC3"}},
                   {"[\\d_-]+", {"1_2-3"}, {"a"}},
                   {"[-a]", {"-", "a"}, {"b"}},
                   {"\\x41\\u0042\\u{43}\\n\\t\\/\\.", {"ABC\n\t/."}, {"ABC"}},
                   {"\\ud83d\\ude00", {"😀"}, {"?"}},
                   {"\\p{Lu}\\P{L}", {"A1", "Ä."}, {"a1", "AA"}},
                   {"\\w+\\s\\W", {"ab_1 ."}, {"ab_1."}},
                   {"(a*)*b", {"b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}, {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
                   {"(a|a)*(a|aa)+c", {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"}, {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
               });
}

TEST(RegexGrammarTest, ErrorsNameTheMistake) {
  expect_mistakes(compile_regex,
                  {
                      {"a(?=b)", ErrorCode::kUnsupported, "a lookahead"},
                      {"(?<!b)a", ErrorCode::kUnsupported, "a lookbehind"},
                      {"(a)\\1", ErrorCode::kUnsupported, "a back-reference"},
                      {"\\ba", ErrorCode::kUnsupported, "a word boundary"},
                      {"(?i)a", ErrorCode::kUnsupported, "flags"},
                      {"a$b", ErrorCode::kUnsupported, "an anchor"},
                      {"a^", ErrorCode::kUnsupported, "an anchor"},
                      {"a(?:^b|c)", ErrorCode::kUnsupported, "an anchor in some"},
                      {"(a$)+", ErrorCode::kUnsupported, "an anchor that is repeated"},
                      {"ab+(?=c)", ErrorCode::kUnsupported, "at byte 3 of the pattern"},
                      {"a++", ErrorCode::kUnsupported, "possessive"},
                      {"\\p{Greek}", ErrorCode::kUnsupported, "\\p"},
                      {"\\q", ErrorCode::kUnsupported, "\\q"},
                      {"(a", ErrorCode::kInvalidArgument, "byte 2"},
                      {"a)", ErrorCode::kInvalidArgument, "parenthesis"},
                      {"[a", ErrorCode::kInvalidArgument, "class without an end"},
                      {"*a", ErrorCode::kInvalidArgument, "quantifier"},
                      {"a{3,2}", ErrorCode::kInvalidArgument, "below its minimum"},
                      {"[b-a]", ErrorCode::kInvalidArgument, "range"},
                      {"\\u{110000}", ErrorCode::kInvalidArgument, "not a character"},
                      {"\xFF", ErrorCode::kInvalidArgument, "UTF-8"},
                      {"[]", ErrorCode::kInvalidArgument, "no text"},
                      {"a{2000000}", ErrorCode::kLimitExceeded, "count"},
                      {std::string(200, '(') + std::string(200, ')'), ErrorCode::kLimitExceeded, "nested"},
                  });
}

// Repetition counts cost neither time nor memory, because blocks do not write them out.
TEST(RegexGrammarTest, LargeRepetitionCountsAreCheap) {
  EXPECT_TRUE(accepts(compile_regex("(ab){1000000}|a{5}"), "aaaaa"));
  EXPECT_FALSE(accepts(compile_regex("(ab){1000000}|a{5}"), "abab"));
  const Result<Grammar> nested = compile_regex("(((a{1,1000}){1,1000}){1,1000}){1,1000}");
  ASSERT_TRUE(nested.ok());
  const Result<bool> accepted = grammar_accepts(*nested, std::string(2000, 'a'));
  EXPECT_TRUE(accepted.ok() ? *accepted : accepted.status().code() == ErrorCode::kLimitExceeded);
}

TEST(GbnfGrammarTest, GrammarAcceptsTheTextsOfItsRules) {
  const std::string arithmetic =
      "# sums\n"
      "root  ::= (expr \"=\" ws term \"\\n\")+\n"
      "expr  ::= term ([-+*/] term)*\n"
      "term  ::= ident | num | \"(\" ws expr \")\" ws\n"
      "ident ::= [a-z] [a-z0-9_]* ws\n"
      "num   ::= [0-9]+ ws\n"
      "ws    ::= [ \\t\\n]*\n";
  expect_texts(compile_gbnf,
               {
                   {arithmetic, {"a+1=2\n", "(a *(b -3)) = c\nx=y\n"}, {"a+1=2", "a+=2\n"}},
                   {"root ::= \"a\" | # or\n  \"b\"\r\n", {"a", "b"}, {"ab"}},
                   {"root ::= ( \"a\"\n \"b\" ){2,3}", {"abab", "ababab"}, {"ab", "abababab"}},
                   {"root ::= [^\\\"\\x00-\\x1f\\]]{,2} \"\\\"\\\\\\u00e9\"", {"\"\\é", "ab\"\\é"}, {"a]\"\\é"}},
                   {"root ::= item* \nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\u0085\\u2028\\u2029]+ \"\\n\"",
                    {"", "- a\n- b\n"},
                    {"- \n"}},
                   {"root ::= \"a\"? . [\\U0001F600-\\U0001F64F]", {"a\n😀", "é😁"}, {"a😀😀😀"}},
                   {"root ::= \"\" | \"(\" root \")\" root", {"", "()(())"}, {"(", ")("}},
                   {"root ::= b b+ b? b{2}\nb ::= \"x\"", {"xxxx", "xxxxxxx"}, {"xxx"}},
                   {"root ::= x-1 x_2\nx-1 ::= \"1\"\nx_2 ::= \"2\"", {"12"}, {"1"}},
               });
}

TEST(GbnfGrammarTest, ErrorsNameTheLine) {
  expect_mistakes(compile_gbnf,
                  {
                      {"", ErrorCode::kInvalidArgument, "root"},
                      {"root ::= x", ErrorCode::kInvalidArgument, "rule x is used"},
                      {"a ::= \"b\"", ErrorCode::kInvalidArgument, "rule root is missing"},
                      {"root ::= \"a\"\nroot ::= \"b\"", ErrorCode::kInvalidArgument, "twice"},
                      {"root ::= \"a", ErrorCode::kInvalidArgument, "line 1"},
                      {"root ::= \"a\"\n\nroot2 = 3", ErrorCode::kInvalidArgument, "line 3"},
                      {"root ::= (\"a\"", ErrorCode::kInvalidArgument, "group"},
                      {"root ::= [b-a]", ErrorCode::kInvalidArgument, "range"},
                      {"root ::= \"\\q\"", ErrorCode::kInvalidArgument, "escape"},
                      {"root ::= \"a\"{3,1}", ErrorCode::kInvalidArgument, "below the minimum"},
                      {"root ::= \"a\"{9999999}", ErrorCode::kLimitExceeded, "count"},
                      {"root ::= <think", ErrorCode::kInvalidArgument, "line 1: a reference to a token is not closed"},
                      {"root ::= <[12>", ErrorCode::kInvalidArgument, "expected ]>"},
                      {"root ::= !\"a\"", ErrorCode::kInvalidArgument, "expected < after !"},
                      {"root ::= root \"a\" | \"b\"", ErrorCode::kUnsupported, "rule root is left-recursive"},
                      {"root ::= a \"x\"\na ::= \" \"* b\nb ::= a | \"b\"", ErrorCode::kUnsupported, "left-recursive"},
                      {"root ::= root2\nroot2 ::= \"a\" root2", ErrorCode::kInvalidArgument, "no text"},
                      {"root ::= \"\xFF\"", ErrorCode::kInvalidArgument, "UTF-8"},
                  });
}

TEST(ChoicesTest, GrammarAcceptsExactlyTheChoices) {
  const Result<Grammar> grammar = compile_choices({"yes", "no", "no, never", "\xFF\x00"});
  EXPECT_TRUE(accepts(grammar, "no"));
  EXPECT_TRUE(accepts(grammar, "no, never"));
  EXPECT_TRUE(accepts(grammar, "\xFF"));
  EXPECT_FALSE(accepts(grammar, "no,"));
  EXPECT_EQ(compile_choices({}).status().code(), ErrorCode::kInvalidArgument);
}

TEST(CallGrammarTest, RequiredCallsBeginImmediatelyAndFollowEachOther) {
  const Grammar digits = *compile_regex("[0-9]+");
  RequiredCalls demanded;
  demanded.lead.opening = "[";
  demanded.calls = {{{.words = "f(", .grammar = digits}, {.words = ")"}}, {{.words = "g()"}}};
  demanded.separator = ", ";
  demanded.end = "]";
  const Result<Grammar> one = compile_calls(demanded);
  EXPECT_TRUE(accepts(one, "[f(12)]"));
  EXPECT_TRUE(accepts(one, "[g()]"));
  for (const char* other : {"", "[]", "x[g()]", " [g()]", "[f()]", "[f(1)", "[f(1), g()]", "[g()] "}) {
    EXPECT_FALSE(accepts(one, other)) << other;
  }
  demanded.several = true;
  const Result<Grammar> more = compile_calls(demanded);
  EXPECT_TRUE(accepts(more, "[f(12)]"));
  EXPECT_TRUE(accepts(more, "[f(1), g(), f(2)]"));
  EXPECT_FALSE(accepts(more, "[f(1)g()]"));
  EXPECT_FALSE(accepts(more, "[f(1), ]"));
  std::string many = "[g()";
  for (int i = 1; i < 16; ++i) many += ", g()";
  EXPECT_TRUE(accepts(more, many + "]"));
  EXPECT_FALSE(accepts(more, many + ", g()]")) << "more calls than allowed";
  EXPECT_EQ(compile_calls({}).status().code(), ErrorCode::kInvalidArgument);
}

TEST(CallGrammarTest, AnswerMayEndAfterABlankSeparator) {
  RequiredCalls demanded;
  demanded.calls = {{{.words = "<c>f</c>"}}};
  demanded.separator = "\n";
  EXPECT_FALSE(accepts(compile_calls(demanded), "<c>f</c>\n"));
  demanded.several = true;
  const Result<Grammar> calls = compile_calls(demanded);
  for (const char* text : {"<c>f</c>", "<c>f</c>\n", "<c>f</c>\n\n", "<c>f</c>\n<c>f</c>\n"}) {
    EXPECT_TRUE(accepts(calls, text)) << text;
  }
  for (const char* text : {"<c>f</c>\n\n\n", "<c>f</c>\n<c>", "<c>f</c>\n\n<c>f</c>", "<c>f</c>\nx", "\n"}) {
    EXPECT_FALSE(accepts(calls, text)) << text;
  }
}

TEST(CallGrammarTest, ReasoningMayPrecedeCallsAndMustEnd) {
  const Grammar digits = *compile_regex("[0-9]+");
  const Result<Grammar> may = compile_after({.begin = "<t>", .end = "</t>"}, digits);
  for (const char* text : {"12", "<t></t>12", "<t>any < </ </u> 7</t>\n\n12", "<t>a<t>b</t> 1", "<t>\xFF</t</t</t>1"}) {
    EXPECT_TRUE(accepts(may, text)) << text;
  }
  for (const char* text : {"", "<t>12", "a</t>12", "<t>a</t>", "<t>a</t>\n\n\n1", "<t>a</t>1</t>2", "\n12"}) {
    EXPECT_FALSE(accepts(may, text)) << text;
  }
  const Result<Grammar> open = compile_after({.begin = "<t>", .end = "</t>", .is_open = true}, digits);
  EXPECT_TRUE(accepts(open, "a</t>12"));
  EXPECT_TRUE(accepts(open, "</t>12"));
  EXPECT_FALSE(accepts(open, "12"));
  const Result<Grammar> opening = compile_after({.begin = "<t>", .end = "</t>", .opening = "final:"}, digits);
  EXPECT_TRUE(accepts(opening, "<t>a</t>final:1"));
  EXPECT_TRUE(accepts(opening, "final:1"));
  EXPECT_FALSE(accepts(opening, "1"));
}

// Reasoning markers come from a model file's template, and are searched for with and without surrounding white space,
// so long markers count twice or more.
TEST(CallGrammarTest, OverlongReasoningMarkersAreRejected) {
  for (const size_t n : {1u, 4'000u, 6'000u, 9'998u, 12'000u}) {
    for (const char* front : {"", "\n", " "}) {
      const std::string end = front + std::string(n, 'x');
      const Result<Grammar> calls = compile_calls({.lead = {.begin = "<", .end = end}, .calls = {{{.words = "f"}}}});
      EXPECT_TRUE(calls.ok() || calls.status().code() == ErrorCode::kLimitExceeded) << calls.status().message();
      EXPECT_EQ(calls.ok(), n < 5'000) << n;
    }
  }
}

TEST(CallGrammarTest, CallMayContainAlternativesAndTextThatEndsAtAMarker) {
  RequiredCalls demanded;
  demanded.calls = {{{.words = "<p>", .text_up_to = "\n</p>", .one_of = {{{.words = "\n<q>"}}, {}}}, {.words = "!"}}};
  const Result<Grammar> calls = compile_calls(demanded);
  for (const char* text : {"<p>\n</p>!", "<p>a\n</p>!", "<p>a\n\n</p>\n<q>!", "<p>\n<p>\n<</p \n</p>!"}) {
    EXPECT_TRUE(accepts(calls, text)) << text;
  }
  for (const char* text : {"<p></p>!", "<p>a</p>\n</p>!", "<p>\n</p>\n</p>!", "<p>a\n</p>", "<p>a\n</p>\n<q>\n<q>!"}) {
    EXPECT_FALSE(accepts(calls, text)) << text;
  }
  demanded.calls = {{{.words = "f", .one_of = {{{.words = ",a"}}, {{.words = ",b"}}}, .repeats = true}}};
  for (const char* text : {"f", "f,a", "f,b,a,b"}) EXPECT_TRUE(accepts(compile_calls(demanded), text)) << text;
  EXPECT_FALSE(accepts(compile_calls(demanded), "f,c"));
  demanded.otherwise = {.words = "no ", .grammar = *compile_regex("[0-9]+")};
  demanded.lead.opening = "[";
  for (const char* text : {"[f", "no 12"}) EXPECT_TRUE(accepts(compile_calls(demanded), text)) << text;
  for (const char* text : {"f", "[no 12", "no "}) EXPECT_FALSE(accepts(compile_calls(demanded), text)) << text;
}

TEST(CallGrammarTest, AnyTextIsAllowedBeforeAMarkerThatBeginsACall) {
  CallsInText text;
  text.begins = {{.word = "<c>", .rest = {{{.words = "f", .grammar = *compile_regex("[0-9]"), .text_up_to = "</c>"}}}},
                 {.word = "<c2>"}};
  for (const bool several : {true, false}) {
    text.several = several;
    const Result<Grammar> grammar = compile_calls_in_text(text);
    for (const char* one : {"", "any <c text <c2 \xFF", "<c>f1</c>", "a <<c>f1</c> b", "<c>f1 <c></c> <c"}) {
      EXPECT_TRUE(accepts(grammar, one)) << one;
    }
    for (const char* other : {"<c>", "<c>f", "<c> f1</c>", "<c>f1", "<c2>", "a <c2> b", "<c>f1</c><c2>"}) {
      EXPECT_FALSE(accepts(grammar, other)) << other;
    }
    EXPECT_EQ(*grammar_accepts(*grammar, "<c>f1</c> <c>f2</c>"), several);
  }
}

TEST(CallGrammarTest, ReasoningBeforeATextIsUnconstrainedAndMayBeCutOff) {
  CallsInText text;
  text.lead = {.begin = "<t>", .end = "</t>"};
  text.begins = {{.word = "<c>", .rest = {{{.words = "f"}}}}};
  for (const bool open : {false, true}) {
    text.lead.is_open = open;
    const Result<Grammar> grammar = compile_calls_in_text(text);
    const std::string begin = open ? "" : " \n<t>";
    for (const char* one : {"a", "a <c> b", "a <c> b</t>", "a <c>g</t> c <c>f", "</t><t>b"}) {
      EXPECT_TRUE(accepts(grammar, begin + one)) << one;
    }
    for (const char* other : {"a</t><c>", "a</t><c>g", "</t><t><c>"}) {
      EXPECT_FALSE(accepts(grammar, begin + other)) << other;
    }
  }
}

// Calls that have no marker are recognised at the beginning of the text only.
TEST(CallGrammarTest, CallWithoutAMarkerBeginsOnlyAtTheStartOfTheText) {
  CallsInText text;
  text.begins = {{.word = "{\"name\"", .only_at_beginning = true, .ends = true, .rest = {{{.words = ": f}"}}}},
                 {.word = "{\"id\"", .only_at_beginning = true},
                 {.word = "<py>", .rest = {{{.words = "!"}}}}};
  const Result<Grammar> grammar = compile_calls_in_text(text);
  for (const char* one : {"", "{", "{\"", "{\"na", "{\"names\": 1}", "{\"name\": f}", " {\n \"name\": f} \n",
                          "a {\"name\"", "{ \"a\": <py>! b", "{ <py>!", "{}", "<py>! {\"name\"", "\"name\""}) {
    EXPECT_TRUE(accepts(grammar, one)) << one;
  }
  for (const char* other : {"{\"name\"", "{\"name\": g}", " { \"name\"", "{\"id\"", "{\"id\": 1}", "{\"name\": f} a",
                            "{\"na<py>", "{ <py>?"}) {
    EXPECT_FALSE(accepts(grammar, other)) << other;
  }
  text.begins.push_back({});
  EXPECT_EQ(compile_calls_in_text(text).status().code(), ErrorCode::kInvalidArgument);
  text.begins.back().word = std::string(20'000, 'x');
  EXPECT_EQ(compile_calls_in_text(text).status().code(), ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace ibid
