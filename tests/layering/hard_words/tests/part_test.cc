TEST(Part, WhatIsFoundIsNamed) {}
