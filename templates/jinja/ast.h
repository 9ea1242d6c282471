// The syntax tree of a template. A Program owns the tree, which is immutable after parsing.
//
// `height` bounds the recursion when a tree is walked or destroyed: the parser rejects trees higher than
// kMaxTreeHeight, also the trees of chains such as a + b + c ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "templates/jinja/value.h"

namespace ibid::jinja {

inline constexpr uint32_t kMaxTreeHeight = 400;

using Symbol = uint32_t;  // index into Program's names

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

using Filter = const Builtin<Value>*;
using Test = const Builtin<bool>*;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr unpacked_list, unpacked_dict;  // *args, **kwargs
};

enum class ExprKind : uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,  // children are the elements; in a dict: key, value, key, value ...
  kNot,
  kNegative,
  kPositive,  // children[0]
  kAnd,
  kOr,  // children[0..1]
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kConcat,          // children: a ~ b ~ c
  kCompare,         // children[0] is the first operand, children[i] the right operand of entry i - 1 of compare_ops
  kConditional,     // children: test, then, else; else may be nullptr
  kAttribute,       // children[0].text
  kSubscript,       // children[0][children[1]]
  kSlice,           // children[0][children[1]:children[2]:children[3]], each may be nullptr
  kCall,            // children[0](args)
  kFilter,          // children[0] | text(args); children[0] is nullptr in a filter block
  kTest,            // children[0] is text(args)
  kNamespaceField,  // name.text, a field of a namespace, as the target of {% set name.text = ... %}
};

enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  uint32_t height = 1;
  Symbol symbol = 0;
  std::string text;
  Value constant;
  std::vector<ExprPtr> children;
  std::vector<CompareOp> compare_ops;
  std::unique_ptr<CallArguments> args;
  Filter filter = nullptr;  // nullptr: no filter has this name; evaluating the expression fails
  Test test = nullptr;
  bool in_constant_output = false;  // kSlice in a printed constant expression: see note_constant_output() in parser.h
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

// A macro, or the body of a {% call %} block, which is an unnamed macro.
struct MacroNode {
  std::string name;
  Symbol symbol = 0;
  std::vector<std::pair<std::string, Symbol>> parameters;
  std::vector<ExprPtr> defaults;  // default values of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

enum class StmtKind : uint8_t {
  kText,      // text
  kOutput,    // exprs, printed one after the other
  kSet,       // target = exprs[0]
  kSetBlock,  // {% set %} with a body: bodies[0] through filters is assigned to targets[0]
  kIf,        // the tests are in exprs (nullptr: else); bodies[i] belongs to exprs[i]
  kFor,       // {% for targets[0] in exprs[0] if exprs[1] %} bodies[0] {% else %} bodies[1]
  kMacro,
  kCallBlock,    // exprs[0] is the call; macro is its body
  kFilterBlock,  // bodies[0] through filters
  kWith,         // {% with targets = exprs %} bodies[0]
  kScope,        // {% generation %}: bodies[0] in its own scope
  kBreak,
  kContinue,
  kUnsupported,  // include, import, extends: executing it is an error that names `text`
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  bool recursive = false;
  std::string text;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Body> bodies;
  std::vector<ExprPtr> filters;  // filters in the order of their application; children[0] of each filter is nullptr
  std::unique_ptr<MacroNode> macro;
};

}  // namespace ibid::jinja
