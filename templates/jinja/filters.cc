#include "templates/jinja/filters.h"

#include <algorithm>
#include <iterator>

namespace ibid::jinja {

Filter find_filter(std::string_view name) {
  if (const Filter filter = find_text_filter(name)) return filter;
  if (const Filter filter = find_collection_filter(name)) return filter;
  if (const Filter filter = find_markup_filter(name)) return filter;
  return find_selection_filter(name);
}

std::string no_filter(const std::string& name) {
  static constexpr std::string_view kUnsupported[] = {"pprint", "striptags", "urlize", "wordwrap"};
  if (name == "random") return "The filter 'random' is not supported: a prompt must not depend on chance.";
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported)) {
    return "The filter '" + name + "' is not supported.";
  }
  return "No filter named '" + name + "'.";
}

}  // namespace ibid::jinja
