// The words that every layer shares.
#pragma once

#include "ibid/token.h"
