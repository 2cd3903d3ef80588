"""What is true, and what was true at commit c: sessions, history and migrations over one backend protocol."""
