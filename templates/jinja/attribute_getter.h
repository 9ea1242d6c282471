// Getters by which filters reach into items: attribute='a.b', case-insensitive keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "templates/jinja/evaluator.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

class AttributeGetter {
 public:
  // None: the item itself. An int, or text: parts between dots, digits as indices. ignore_case lowers
  // strings.
  AttributeGetter(Evaluator& evaluator, const Value* attribute, bool ignore_case = false,
                  std::optional<Value> fallback = std::nullopt);
  // With several: "a,b" makes a list of keys.
  static Items all(std::vector<AttributeGetter>& getters, const Value& item);

  Value operator()(const Value& item);

 private:
  Evaluator& evaluator_;
  Items parts_;
  bool ignore_case_;
  std::optional<Value> fallback_;
};

// Parts of "a,b" as getters; one getter of the item itself when `attribute` is nullptr or None.
std::vector<AttributeGetter> attribute_getters(Evaluator& evaluator, const Value* attribute,
                                               bool ignore_case);

}  // namespace ibid::jinja
