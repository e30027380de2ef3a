"""The screens on which pages are looked at."""

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
