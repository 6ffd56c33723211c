"""What is true: values in, values out. No I/O, no clock, no chance."""
