"""The stages as Faust applications, but for intake and Avro publisher."""
