"""The loan example: three agents judge an application, and the store remembers who said what, and when."""
